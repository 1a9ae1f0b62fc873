// Rotary embedding, cache writes and attention over paged caches: each backend against plain double arithmetic, and bit
// equality over chunking, batch, threads and instruction set.
#include <algorithm>

#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

struct Shape {
  int32_t heads, kv_heads, head_dim, block_tokens, window;
  DType dtype;
  bool causal;
  float k_scale = 1.0f, v_scale = 1.0f;
};

/// One layer's cache of `sequences` sequences with scattered blocks; unused space is NaN.
struct Cache {
  Shape shape;
  std::vector<std::byte> k, v;
  std::vector<std::vector<int32_t>> tables;
  std::vector<const int32_t*> columns;

  Cache(const Shape& s, int32_t sequences, int32_t tokens) : shape(s) {
    const int32_t each = (tokens + s.block_tokens - 1) / s.block_tokens;
    const size_t bytes = static_cast<size_t>(int64_t{sequences} * each * s.kv_heads * s.block_tokens * s.head_dim *
                                             dtype_info(s.dtype).block_bytes);
    k.assign(bytes, std::byte{0xff});  // NaN in each dtype
    v.assign(bytes, std::byte{0xff});
    for (int32_t i = 0; i < sequences; ++i) {
      tables.emplace_back();
      for (int32_t b = 0; b < each; ++b) tables.back().push_back((each - 1 - b) * sequences + i);
    }
    for (auto& table : tables) columns.push_back(table.data());
  }
  KvLayer layer() {
    KvLayer layer{k.data(), v.data(), shape.dtype, shape.kv_heads, shape.head_dim, shape.block_tokens, 0};
    layer.k_scale = shape.k_scale, layer.v_scale = shape.v_scale;
    return layer;
  }
};

/// Rows of a step: per sequence a context and a count.
struct Step {
  std::vector<SpanRows> spans;
  std::vector<int32_t> positions;
  StepInputs inputs;
  Step(Cache& cache, const std::vector<std::pair<int32_t, int32_t>>& context_rows) {
    int32_t row = 0;
    for (size_t i = 0; i < context_rows.size(); ++i) {
      const auto [context, rows] = context_rows[i];
      if (rows == 0) continue;
      spans.push_back({row, rows, context, &cache.columns[i]});
      for (int32_t r = 0; r < rows; ++r) positions.push_back(context + r);
      row += rows;
    }
    inputs = {row, nullptr, positions.data(), spans, {}};
  }
};

float rounded(float x, DType dtype, float scale) {
  if (dtype == DType::kF8E4M3) return e4m3_to_f32(f32_to_e4m3(x / scale)) * scale;
  if (dtype == DType::kF16) return f16_to_f32(f32_to_f16(x));
  return dtype == DType::kBF16 ? bf16_to_f32(f32_to_bf16(x)) : x;
}

std::vector<float> frequencies(int32_t dim) {
  std::vector<float> f;
  for (int32_t i = 0; i < dim / 2; ++i) f.push_back(std::pow(100000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(dim)));
  return f;
}

/// qkv of one sequence: [tokens, (heads + 2 kv) * dim]
using Rows = std::vector<float>;

/// Rope, cache and attention over the given chunks of each sequence; outputs of all rows in sequence order. `mask`, if
/// any, is the last step's ancestor mask.
std::vector<Rows> run(Ops& ops, const Shape& s, const std::vector<Rows>& qkv,
                      const std::vector<std::vector<std::pair<int32_t, int32_t>>>& steps, int32_t tokens,
                      const std::vector<uint32_t>& mask = {}) {
  const int64_t stride = (int64_t{s.heads} + 2 * s.kv_heads) * s.head_dim;
  const int64_t width = int64_t{s.heads} * s.head_dim;
  Cache cache(s, static_cast<int32_t>(qkv.size()), tokens);
  const auto inv_freq = frequencies(s.head_dim);
  std::vector<Rows> out(qkv.size(), Rows(static_cast<size_t>(tokens * width)));
  for (const auto& chunk : steps) {
    Step step(cache, chunk);
    Rows rows;
    for (size_t i = 0; i < chunk.size(); ++i)
      rows.insert(rows.end(), qkv[i].begin() + chunk[i].first * stride,
                  qkv[i].begin() + (chunk[i].first + chunk[i].second) * stride);
    QkvParams q;
    q.step = &step.inputs;
    q.qkv = rows.data();
    q.heads = s.heads, q.kv_heads = s.kv_heads, q.head_dim = s.head_dim;
    q.rope = {RopeStyle::kHalfSplit, s.head_dim, inv_freq.data(), 1.0f};
    q.kv = cache.layer();
    ops.qkv_norm_rope_cache(q);
    Activation y = ops.make_activation(step.inputs.rows, width, kActF32);
    AttentionParams a;
    a.step = &step.inputs;
    a.q = rows.data(), a.q_stride = stride;
    a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim;
    a.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    a.window = s.window, a.causal = s.causal, a.kv = cache.layer(), a.out = &y;
    if (&chunk == &steps.back() && !mask.empty()) {
      REQUIRE(mask.size() == static_cast<size_t>(step.inputs.rows));
      a.ancestor_mask = mask.data();
    }
    ops.attention(a);
    REQUIRE(y.rows == step.inputs.rows);
    int64_t row = 0;
    for (size_t i = 0; i < chunk.size(); ++i)
      for (int32_t r = 0; r < chunk[i].second; ++r, ++row)
        std::copy_n(y.f32 + row * width, width, out[i].begin() + (chunk[i].first + r) * width);
  }
  return out;
}

/// The same in double, from the definition. `mask` is that of the last mask.size() rows.
Rows exact(const Shape& s, const Rows& qkv, int32_t tokens, const std::vector<uint32_t>& mask = {}) {
  const int64_t stride = (int64_t{s.heads} + 2 * s.kv_heads) * s.head_dim;
  const auto inv_freq = frequencies(s.head_dim);
  Rows turned = qkv;
  for (int32_t t = 0; t < tokens; ++t)
    for (int32_t h = 0; h < s.heads + s.kv_heads; ++h)
      for (int32_t i = 0; i < s.head_dim / 2; ++i) {
        float* head = turned.data() + t * stride + h * s.head_dim;
        const double angle = static_cast<float>(t) * inv_freq[static_cast<size_t>(i)];
        const double a = head[i], b = head[i + s.head_dim / 2];
        head[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
        head[i + s.head_dim / 2] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
      }
  Rows out(static_cast<size_t>(int64_t{tokens} * s.heads * s.head_dim));
  for (int32_t t = 0; t < tokens; ++t)
    for (int32_t h = 0; h < s.heads; ++h) {
      const int32_t context = tokens - static_cast<int32_t>(mask.size());
      const bool masked = t >= context && !mask.empty();
      const int32_t end = s.causal && !masked ? t + 1 : tokens;
      const int32_t first = s.window > 0 ? std::max(0, t - s.window + 1) : 0;
      const float* q = turned.data() + t * stride + h * s.head_dim;
      const int64_t kv = s.heads + h / (s.heads / s.kv_heads);
      std::vector<int32_t> seen;
      for (int32_t u = first; u < end; ++u)
        if (!masked || u < context || (mask[static_cast<size_t>(t - context)] >> (u - context) & 1u) != 0) seen.push_back(u);
      if (seen.empty()) continue;
      std::vector<double> p;
      double sum = 0;
      for (const int32_t u : seen) {
        double score = 0;
        for (int32_t d = 0; d < s.head_dim; ++d)
          score += double{q[d]} * rounded(turned[static_cast<size_t>(u * stride + kv * s.head_dim + d)], s.dtype, s.k_scale);
        p.push_back(score / std::sqrt(static_cast<double>(s.head_dim)));
      }
      const double max = *std::max_element(p.begin(), p.end());
      for (double& x : p) sum += x = std::exp(x - max);
      for (int32_t d = 0; d < s.head_dim; ++d) {
        double value = 0;
        for (size_t i = 0; i < seen.size(); ++i)
          value += p[i] / sum *
                   rounded(turned[static_cast<size_t>(seen[i] * stride + (kv + s.kv_heads) * s.head_dim + d)], s.dtype, s.v_scale);
        out[static_cast<size_t>((int64_t{t} * s.heads + h) * s.head_dim + d)] = static_cast<float>(value);
      }
    }
  return out;
}

Rows random_qkv(const Shape& s, int32_t tokens, uint32_t seed) {
  std::mt19937 rng(seed);
  return random_floats(rng, static_cast<size_t>(int64_t{tokens} * (s.heads + 2 * s.kv_heads) * s.head_dim));
}

}  // namespace

TEST_CASE("attention equals its definition", "[attention]") {
  const Shape s = GENERATE(
      Shape{9, 3, 64, 32, 0, DType::kBF16, true}, Shape{4, 4, 16, 64, 0, DType::kF32, true},
      Shape{8, 1, 32, 32, 0, DType::kF16, true}, Shape{6, 2, 96, 32, 40, DType::kBF16, true},
      Shape{4, 2, 128, 64, 0, DType::kBF16, true}, Shape{2, 1, 256, 32, 7, DType::kF32, true},
      Shape{3, 1, 80, 32, 0, DType::kBF16, true}, Shape{4, 2, 64, 32, 0, DType::kBF16, false},
      Shape{4, 2, 24, 32, 50, DType::kF16, false}, Shape{8, 2, 64, 32, 0, DType::kF8E4M3, true},
      Shape{4, 1, 80, 64, 40, DType::kF8E4M3, true}, Shape{2, 2, 20, 32, 0, DType::kF8E4M3, false},
      Shape{4, 2, 128, 32, 0, DType::kF8E4M3, true, 0.25f, 0.03f});
  const int32_t tokens = 75;
  const Rows qkv = random_qkv(s, tokens, 1);
  const Rows want = exact(s, qkv, tokens);
  std::vector<std::string> backends = instruction_sets();
  backends.emplace_back("reference");
  for (const std::string& backend : backends) {
    auto ops = backend == "reference" ? make_reference_ops() : cpu(2, backend);
    INFO(backend << " heads " << s.heads << "/" << s.kv_heads << " dim " << s.head_dim << " window " << s.window);
    const auto out = run(*ops, s, {qkv}, {{{0, tokens}}}, tokens)[0];
    double worst = 0;
    // rounding K to 16 bits after a rotation that differs in its last bit may move one step of the cache dtype
    const double bound = s.dtype == DType::kF32 ? 2e-6 : 6e-3;
    double mean = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      worst = std::max(worst, std::fabs(double{out[i]} - want[i]));
      mean += std::fabs(double{out[i]} - want[i]) / static_cast<double>(out.size());
    }
    CHECK(worst <= bound);
    CHECK(mean <= 5e-6);
  }
}

TEST_CASE("a row's attention does not depend on chunks, batch, threads or instruction set", "[attention][exact]") {
  const Shape s = GENERATE(Shape{9, 3, 64, 32, 0, DType::kBF16, true}, Shape{4, 2, 128, 64, 70, DType::kF16, true},
                           Shape{4, 1, 80, 32, 0, DType::kF32, true}, Shape{4, 2, 72, 32, 0, DType::kF8E4M3, true, 0.5f, 0.3f});
  const int32_t tokens = 300;  // long enough for split attention of the last rows
  const std::vector<Rows> qkv = {random_qkv(s, tokens, 2), random_qkv(s, tokens, 3)};
  auto first = cpu(1, "scalar");
  const auto want = run(*first, s, qkv, {{{0, tokens}, {0, tokens}}}, tokens);
  const std::vector<std::vector<std::vector<std::pair<int32_t, int32_t>>>> plans = {
      {{{0, tokens}, {0, 0}}, {{0, 0}, {0, tokens}}},                             // one after the other
      {{{0, 33}, {0, 200}}, {{33, 261}, {200, 94}}, {{294, 1}, {294, 3}},         // mixed chunks,
       {{295, 4}, {297, 1}}, {{299, 1}, {298, 0}}, {{300, 0}, {298, 2}}},         // then single rows and drafts
      {{{0, 288}, {0, 0}}, {{288, 12}, {0, 299}}, {{300, 0}, {299, 1}}},
  };
  for (const std::string& isa : instruction_sets())
    for (const int32_t threads : {1, 2, 3}) {
      auto ops = cpu(threads, isa);
      for (size_t p = 0; p < plans.size(); ++p) {
        if (isa == "scalar" && p != 1) continue;
        INFO(isa << " threads " << threads << " plan " << p << " dim " << s.head_dim);
        const auto got = run(*ops, s, qkv, plans[p], tokens);
        CHECK(same_bits(got[0], want[0]));
        CHECK(same_bits(got[1], want[1]));
      }
    }
}

TEST_CASE("an E4M3 cache holds what exceeds it at 448 and keeps NaN to its token", "[attention]") {
  const Shape s{2, 1, 32, 32, 0, DType::kF8E4M3, true};
  const int32_t tokens = 3;
  const int64_t stride = 4 * 32;
  Rows qkv(static_cast<size_t>(tokens * stride), 0.0f);
  qkv[0 * stride + 96 + 5] = 1e30f;      // V of the first token
  qkv[1 * stride + 96 + 5] = -449.0f;
  qkv[2 * stride + 96 + 7] = std::nanf("");
  std::vector<std::string> backends = instruction_sets();
  backends.emplace_back("reference");
  for (const std::string& backend : backends) {
    auto ops = backend == "reference" ? make_reference_ops() : cpu(1, backend);
    INFO(backend);
    const Rows out = run(*ops, s, {qkv}, {{{0, tokens}}}, tokens)[0];
    CHECK(out[5] == 448.0f);
    CHECK(out[64 + 5] == 0.0f);  // (448 - 448) / 2
    CHECK(out[64 + 7] == 0.0f);
    CHECK(std::isnan(out[128 + 7]));
    CHECK(std::isnan(out[128 + 32 + 7]));
    CHECK(out[128 + 6] == 0.0f);
  }
}

TEST_CASE("an ancestor mask takes the place of causal order inside a span", "[attention]") {
  const Shape s = GENERATE(Shape{4, 2, 64, 32, 0, DType::kBF16, true}, Shape{6, 2, 32, 32, 0, DType::kF32, false},
                           Shape{2, 1, 96, 64, 20, DType::kF8E4M3, true});
  const int32_t context = GENERATE(0, 1, 30, 64, 100), rows = GENERATE(1, 5, 16, 32);
  const int32_t tokens = context + rows;
  const std::vector<Rows> qkv = {random_qkv(s, tokens, 5)};
  std::vector<uint32_t> tree, chain;
  std::mt19937 random(static_cast<uint32_t>(7 * context + rows));
  for (int32_t r = 0; r < rows; ++r) {
    chain.push_back(~0u >> (31 - r));
    tree.push_back(static_cast<uint32_t>(random()));  // children may come before parents here
  }
  tree[0] = 0;  // with no context a row that sees nothing
  std::vector<std::vector<std::pair<int32_t, int32_t>>> steps = {{{context, rows}}};
  if (context > 0) steps.insert(steps.begin(), {{0, context}});
  const Rows want = exact(s, qkv[0], tokens, tree);
  const auto first = static_cast<std::ptrdiff_t>(int64_t{context} * s.heads * s.head_dim);
  std::vector<std::string> backends = instruction_sets();
  backends.emplace_back("reference");
  Rows scalar;
  for (const std::string& backend : backends) {
    auto ops = backend == "reference" ? make_reference_ops() : cpu(2, backend);
    INFO(backend << " dim " << s.head_dim << " context " << context << " rows " << rows);
    const Rows got = run(*ops, s, qkv, steps, tokens, tree)[0];
    double worst = 0;
    for (size_t i = static_cast<size_t>(first); i < got.size(); ++i) worst = std::max(worst, std::fabs(double{got[i]} - want[i]));
    CHECK(worst <= (s.dtype == DType::kF32 ? 2e-6 : 6e-3));
    if (backend == "scalar") scalar = got;
    if (backend != "reference") CHECK(same_bits(got, scalar));
    Shape causal = s;
    causal.causal = true;
    const Rows as_chain = run(*ops, s, qkv, steps, tokens, chain)[0], plain = run(*ops, causal, qkv, steps, tokens)[0];
    CHECK(std::equal(as_chain.begin() + first, as_chain.end(), plain.begin() + first));
  }
}

TEST_CASE("attention writes int8 blocks of whole heads", "[attention]") {
  // head sizes that are, and are not, whole 32-blocks
  const int32_t dim = GENERATE(16, 64, 80);
  const Shape s{4, 2, dim, 32, 0, DType::kF32, true};
  const int32_t tokens = 40;
  const int64_t width = int64_t{s.heads} * dim, stride = (int64_t{s.heads} + 2 * s.kv_heads) * dim;
  for (const std::string& isa : instruction_sets()) {
    auto ops = cpu(2, isa);
    Cache cache(s, 1, tokens);
    Step step(cache, {{0, tokens}});
    Rows rows = random_qkv(s, tokens, 4);
    const auto inv_freq = frequencies(dim);
    QkvParams q;
    q.step = &step.inputs, q.qkv = rows.data(), q.heads = 4, q.kv_heads = 2, q.head_dim = dim;
    q.rope = {RopeStyle::kInterleaved, dim, inv_freq.data(), 1.0f};
    q.kv = cache.layer();
    ops->qkv_norm_rope_cache(q);
    Activation y = ops->make_activation(tokens, width, kActF32 | kActInt8Block32);
    AttentionParams a;
    a.step = &step.inputs, a.q = rows.data(), a.q_stride = stride, a.heads = 4, a.kv_heads = 2, a.head_dim = dim;
    a.scale = 0.2f, a.kv = cache.layer(), a.out = &y;
    ops->attention(a);
    Activation by_hand = ops->make_activation(tokens, width, kActInt8Block32);
    fill_activation(*ops, &by_hand, std::vector<float>(y.f32, y.f32 + tokens * width), tokens);
    CHECK(std::memcmp(y.q, by_hand.q, static_cast<size_t>(tokens * width)) == 0);
    CHECK(same_bits(y.scale, by_hand.scale, static_cast<size_t>(tokens * width / 32)));
  }
}

TEST_CASE("q/k norm and both rotary styles", "[rope]") {
  const RopeStyle style = GENERATE(RopeStyle::kHalfSplit, RopeStyle::kInterleaved);
  const int32_t rotated = GENERATE(32, 20);  // the rest of the head passes through
  const int32_t position = GENERATE(0, 1, 4095, 130000);
  const Shape s{2, 1, 32, 32, 0, DType::kF32, true};
  const auto inv_freq = frequencies(rotated);
  std::mt19937 rng(8);
  const auto q_norm = random_floats(rng, 32), k_norm = random_floats(rng, 32);
  const Rows original = random_qkv(s, 1, 9);
  std::vector<int32_t> table(static_cast<size_t>(position / 32 + 1), 0);
  const int32_t* column = table.data();
  const SpanRows span{0, 1, position, &column};
  StepInputs step{1, nullptr, &position, {&span, 1}, {}};
  std::vector<std::string> backends = instruction_sets();
  backends.emplace_back("reference");
  for (const std::string& backend : backends) {
    auto ops = backend == "reference" ? make_reference_ops() : cpu(1, backend);
    std::vector<float> k(32 * 32), v(32 * 32);
    Rows rows = original;
    QkvParams p;
    p.step = &step, p.qkv = rows.data(), p.heads = 2, p.kv_heads = 1, p.head_dim = 32;
    p.q_norm = q_norm.data(), p.k_norm = k_norm.data(), p.norm_eps = 1e-6f;
    p.rope = {style, rotated, inv_freq.data(), 1.5f};
    p.kv = {k.data(), v.data(), DType::kF32, 1, 32, 32, 0};
    ops->qkv_norm_rope_cache(p);
    for (int32_t h = 0; h < 3; ++h) {
      const float* in = original.data() + h * 32;
      const auto& weight = h < 2 ? q_norm : k_norm;
      double squares = 0;
      for (int d = 0; d < 32; ++d) squares += double{in[d]} * in[d];
      std::vector<double> want(32);
      for (size_t d = 0; d < 32; ++d) want[d] = in[d] / std::sqrt(squares / 32 + 1e-6) * weight[d];
      for (int32_t i = 0; i < rotated / 2; ++i) {
        const size_t ia = static_cast<size_t>(style == RopeStyle::kHalfSplit ? i : 2 * i);
        const size_t ib = static_cast<size_t>(style == RopeStyle::kHalfSplit ? i + rotated / 2 : 2 * i + 1);
        const double angle = static_cast<float>(position) * inv_freq[static_cast<size_t>(i)];
        const double a = want[ia], b = want[ib];
        want[ia] = 1.5 * (a * std::cos(angle) - b * std::sin(angle));
        want[ib] = 1.5 * (b * std::cos(angle) + a * std::sin(angle));
      }
      const float* got = h < 2 ? rows.data() + h * 32 : k.data() + position % 32 * 32;
      for (size_t d = 0; d < 32; ++d) REQUIRE(got[d] == Approx(want[d]).margin(2e-6));
    }
    CHECK(same_bits(v.data() + position % 32 * 32, original.data() + 96, 32));
  }
}
