// CUDA attention against double arithmetic over odd shapes: contexts around block and tile edges, GQA ratios that do and do
// not divide a tile, windows, masks, scattered blocks, NaN wherever nothing may be read. The main cases run at the GPU's own
// feature level and at 80, which has the generic kernels alone.
#include <algorithm>
#include <tuple>

#include "tests/catch.h"
#include "kernels/cuda/e4m3.cuh"
#include "kernels/cuda/rows.h"
#include "tests/cuda/attention_fixture.h"

using namespace slipstream;
using namespace slipstream::cuda;
using namespace slipstream::cuda::test;

namespace {

/// The largest relative error of a head's output vector, and whether the other output and the padding are as they must be.
struct Outcome {
  double error = 0;
  bool finite = true, bf16_is_rounded = true, padding_untouched = true;
};

template <typename Launch>
Outcome compare(Context& context, AttentionStep& step, const std::vector<double>& wanted, int32_t head_dim, Launch&& launch) {
  const std::vector<float> out = step.run(context, launch);
  const auto dim = static_cast<size_t>(head_dim);
  Outcome outcome;
  for (size_t i = 0; i < wanted.size(); i += dim) {
    double difference = 0, norm = 0;
    for (size_t d = i; d < i + dim; ++d) {
      difference += (static_cast<double>(out[d]) - wanted[d]) * (static_cast<double>(out[d]) - wanted[d]);
      norm += wanted[d] * wanted[d];
      outcome.finite = outcome.finite && std::isfinite(out[d]);
      outcome.bf16_is_rounded = outcome.bf16_is_rounded && step.bf16()[d] == f32_to_bf16(out[d]);
    }
    if (difference > 0) outcome.error = std::max(outcome.error, std::sqrt(difference / std::max(norm, 1e-30)));
  }
  for (size_t i = step.size(); i < step.size() + step.padding(); ++i)
    outcome.padding_untouched = outcome.padding_untouched && std::isnan(out[i]) && step.bf16()[i] == 0xffff;
  return outcome;
}

void require_good(const Outcome& outcome, double bound) {
  REQUIRE(outcome.finite);
  CHECK(outcome.error < bound);
  CHECK(outcome.bf16_is_rounded);
  CHECK(outcome.padding_untouched);
}

// A weight rounded to BF16 is off by 0.1 % (rms); what is left averages out.
constexpr double kTileBound = 4e-3;
constexpr double kSimpleBound = 1e-5;
double tile_bound(DType dtype) { return dtype == DType::kBF16 ? kTileBound : kTileBound / 8; }  // weights in F16

const std::vector<SpanSpec> kDecode = {{0, 1}, {1, 1}, {31, 1}, {32, 1}, {33, 1}, {1000, 1}, {127, 1}};
const std::vector<SpanSpec> kVerify = {{0, 16}, {1, 5}, {31, 2}, {32, 16}, {33, 3}, {1000, 16}, {63, 1}};
const std::vector<SpanSpec> kPrefill = {{0, 17}, {0, 100}, {1, 17}, {31, 33}, {33, 100}, {1000, 35}};

void run_attention(Context& context, const AttentionArgs& args) { attention(context, args); }

/// Each thread's word of four codes by all four conversions: [widen, split, widen_generic, split_generic][low, high].
__global__ void convert(const uint32_t* codes, uint32_t* out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, word = codes[i];
  uint32_t* to = out + 8 * i;
  e4m3_widen(word, to[0], to[1]);
  e4m3_split(word, to[2], to[3]);
  e4m3_widen_generic(word, to[4], to[5]);
  e4m3_split_generic(word, to[6], to[7]);
}

}  // namespace

TEST_CASE("cuda attention: decode, verify and prefill for each head dim and GQA ratio", "[cuda][attention]") {
  Context own(0, slipstream::test::feature_arch()), generic(0, 80);
  for (const int32_t head_dim : {64, 96, 128, 256})
    for (const int32_t group : {1, 3, 4, 7, 8}) {
      const AttentionShape shape{2 * group, 2, head_dim};
      for (const auto& [decode, prefill] : {std::pair{kDecode, std::vector<SpanSpec>{}}, std::pair{kVerify, kPrefill}}) {
        AttentionStep step(own, shape, decode, prefill);
        REQUIRE(attn::tile_supports(step.args, nullptr));
        const std::vector<double> wanted = step.reference();
        for (Context* context : {&own, &generic}) {
          INFO("arch " << context->arch() << " head_dim " << head_dim << " group " << group << " prefill spans " << prefill.size());
          require_good(compare(*context, step, wanted, head_dim, run_attention), kTileBound);
        }
      }
    }
}

TEST_CASE("cuda attention: window, whole span, ancestor mask, fixed splits, block sizes", "[cuda][attention]") {
  Context own(0, slipstream::test::feature_arch()), generic(0, 80);
  for (const int32_t head_dim : {64, 96, 128, 256})
    for (int variant = 0; variant < 9; ++variant) {
      AttentionShape shape{6, 2, head_dim};
      if (variant == 0) shape.window = 1;
      if (variant == 1) shape.window = 40;
      if (variant == 2) shape.window = 500;
      if (variant == 3) shape.causal = false;
      if (variant == 4) shape.causal = false, shape.window = 100;
      if (variant == 5) shape.masked = true;
      if (variant == 6) shape.block_tokens = 16;
      if (variant == 7) shape.block_tokens = 48, shape.window = 77;
      if (variant == 8) shape.block_tokens = 256;
      const std::vector<SpanSpec> prefill = shape.masked ? std::vector<SpanSpec>{{40, 31}} : kPrefill;
      AttentionStep step(own, shape, kVerify, prefill, 7);
      const std::vector<double> wanted = step.reference();
      for (Context* context : {&own, &generic})
        for (const int32_t split_tokens : {0, 64}) {
          step.args.split_tokens = split_tokens;
          INFO("arch " << context->arch() << " head_dim " << head_dim << " variant " << variant << " split_tokens " << split_tokens);
          require_good(compare(*context, step, wanted, head_dim, run_attention), kTileBound);
        }
    }
}

TEST_CASE("cuda attention: every E4M3 code as F16 in every place of a word", "[cuda][attention]") {
  Context context(0);
  std::vector<uint32_t> words;
  for (uint32_t code = 0; code < 256; ++code) words.push_back(code | (code ^ 0x5a) << 8 | (255 - code) << 16 | (code * 7 & 255) << 24);
  const Buffer in = to_device(context, words), out = context.allocate(words.size() * 32);
  convert<<<8, 32, 0, context.stream()>>>(in.as<uint32_t>(), out.as<uint32_t>());
  context.synchronize();
  std::vector<uint32_t> got(words.size() * 8);
  check(cudaMemcpy(got.data(), out.data(), got.size() * 4, cudaMemcpyDeviceToHost), "copy back");
  const int places[8][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}, {0, 1}, {2, 3}, {0, 2}, {1, 3}};
  for (size_t i = 0; i < words.size(); ++i)
    for (size_t j = 0; j < 8; ++j)
      for (const int half : {0, 1}) {
        const auto code = static_cast<uint8_t>(words[i] >> (8 * places[j][half]));
        const float value = f16_to_f32(static_cast<uint16_t>(got[8 * i + j] >> (16 * half))), wanted = e4m3_to_f32(code);
        INFO("code " << int{code} << ", conversion " << j);
        if (std::isnan(wanted))
          REQUIRE(std::isnan(value));
        else
          REQUIRE(f32_to_f16(value) == f32_to_f16(wanted));  // the sign of zero, too
      }
}

TEST_CASE("cuda attention: an E4M3 cache is written as the host rounds", "[cuda][attention]") {
  Context context(0);
  constexpr int32_t kTokens = 40, kHeads = 3, kKvHeads = 2, kDim = 64, kBlock = 32, kAll = kHeads + 2 * kKvHeads;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> qkv(kTokens * kAll * kDim);
  for (float& x : qkv) x = 40.0f * normal(random);
  qkv[kHeads * kDim + 1] = 1e9f;
  qkv[kHeads * kDim + 2] = -INFINITY;
  qkv[kHeads * kDim + 3] = NAN;
  qkv[(kHeads + kKvHeads) * kDim + 4] = 1e-5f;
  std::vector<int32_t> positions(kTokens), spans(kTokens, 0), table = {2, 0};
  for (int32_t t = 0; t < kTokens; ++t) positions[static_cast<size_t>(t)] = t;
  const Buffer data = to_device(context, qkv), at = to_device(context, positions), of = to_device(context, spans), ids = to_device(context, table);
  const size_t bytes = 3 * kKvHeads * kBlock * kDim;
  const Buffer k = context.allocate(bytes), v = context.allocate(bytes);
  context.synchronize();
  StepView step;
  step.rows = kTokens, step.spans = step.max_spans = 1, step.table_stride = 2;
  step.positions = at.as<int32_t>(), step.row_span = of.as<int32_t>(), step.block_tables = ids.as<int32_t>();
  QkvParams p;
  p.qkv = data.as<float>(), p.heads = kHeads, p.kv_heads = kKvHeads, p.head_dim = kDim;  // no norm, no rotation
  p.kv = {k.data(), v.data(), DType::kF8E4M3, kKvHeads, kDim, kBlock, 0, 3};
  p.kv.k_scale = 0.3f, p.kv.v_scale = 0.07f;
  qkv_norm_rope_cache(context, p, step);
  context.synchronize();
  for (const bool is_v : {false, true}) {
    std::vector<uint8_t> codes(bytes);
    check(cudaMemcpy(codes.data(), is_v ? v.data() : k.data(), bytes, cudaMemcpyDeviceToHost), "copy back");
    for (int32_t t = 0; t < kTokens; ++t)
      for (int32_t h = 0; h < kKvHeads; ++h)
        for (int32_t d = 0; d < kDim; ++d) {
          const float x = qkv[static_cast<size_t>((t * kAll + kHeads + (is_v ? kKvHeads : 0) + h) * kDim + d)];
          const int32_t block = table[static_cast<size_t>(t / kBlock)];
          const uint8_t code = codes[static_cast<size_t>(((block * kKvHeads + h) * kBlock + t % kBlock) * kDim + d)];
          if (code != f32_to_e4m3(x / (is_v ? 0.07f : 0.3f))) FAIL("token " << t << ", head " << h << ", element " << d << ": " << x << " is code " << int{code});
        }
    CHECK(std::all_of(codes.begin() + kKvHeads * kBlock * kDim, codes.begin() + 2 * kKvHeads * kBlock * kDim, [](uint8_t c) { return c == 0; }));
  }
}

TEST_CASE("cuda attention: F16 and E4M3 caches on the tensor cores", "[cuda][attention]") {
  Context own(0, slipstream::test::feature_arch()), generic(0, 80);
  for (const DType dtype : {DType::kF8E4M3, DType::kF16})
    for (const int32_t head_dim : {64, 96, 128, 256})
      for (int variant = 0; variant < 12; ++variant) {
        if (dtype == DType::kF16 && variant % 5 != 0) continue;
        if (variant > 4 && (variant + head_dim / 32) % 2 != 0) continue;  // each with half of the head dims
        const int32_t groups[12] = {1, 4, 3, 8, 7, 3, 3, 3, 4, 3, 3, 2};
        AttentionShape shape{2 * groups[variant], 2, head_dim};
        shape.dtype = dtype;
        if (dtype == DType::kF8E4M3 && variant % 2 == 1) shape.k_scale = 0.013f, shape.v_scale = 0.4f;
        if (variant == 5) shape.window = 1;
        if (variant == 6) shape.window = 40;
        if (variant == 7) shape.window = 500;
        if (variant == 8) shape.causal = false;
        if (variant == 9) shape.masked = true;
        if (variant == 10) shape.block_tokens = 16;
        if (variant == 11) shape.block_tokens = 48, shape.window = 77;
        const std::vector<SpanSpec> prefill = shape.masked ? std::vector<SpanSpec>{{40, 31}} : kPrefill;
        for (const bool verify : {false, true}) {
          AttentionStep step(own, shape, verify ? kVerify : kDecode, verify ? prefill : std::vector<SpanSpec>{}, 11);
          REQUIRE(attn::tile_supports(step.args, nullptr));
          const std::vector<double> wanted = step.reference();
          for (Context* context : {&own, &generic})
            for (const int32_t split_tokens : {0, 64}) {
              step.args.split_tokens = split_tokens;
              INFO("arch " << context->arch() << ' ' << dtype_info(dtype).name << " head_dim " << head_dim << " variant " << variant
                           << (verify ? " verify" : " decode") << " split_tokens " << split_tokens);
              require_good(compare(*context, step, wanted, head_dim, run_attention), tile_bound(dtype));
            }
        }
      }
}

TEST_CASE("cuda attention: the simple kernel serves each dtype, head dim and block size", "[cuda][attention]") {
  Context context(0, slipstream::test::feature_arch());
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3})
    for (const auto& [head_dim, block_tokens] : {std::pair{80, 32}, std::pair{40, 24}, std::pair{256, 16}}) {
      for (int variant = 0; variant < 4; ++variant) {
        AttentionShape shape{6, 2, head_dim, block_tokens};
        shape.dtype = dtype;
        if (dtype == DType::kF8E4M3) shape.k_scale = 0.02f, shape.v_scale = 3.0f;
        if (variant == 1) shape.window = 40;
        if (variant == 2) shape.causal = false;
        if (variant == 3) shape.masked = true;
        AttentionStep step(context, shape, kVerify, {{33, 31}}, 3);
        INFO("dtype " << dtype_info(dtype).name << " head_dim " << head_dim << " variant " << variant);
        require_good(compare(context, step, step.reference(), head_dim, attn::launch_simple), kSimpleBound);
      }
    }
}

TEST_CASE("cuda attention: with fixed splits a row's bits do not depend on its company", "[cuda][attention]") {
  Context context(0, slipstream::test::feature_arch());
  for (const auto& [head_dim, dtype] : {std::pair{64, DType::kBF16}, std::pair{96, DType::kBF16}, std::pair{128, DType::kBF16},
                                        std::pair{256, DType::kBF16}, std::pair{64, DType::kF8E4M3}, std::pair{96, DType::kF8E4M3},
                                        std::pair{128, DType::kF8E4M3}, std::pair{256, DType::kF8E4M3}}) {
    AttentionShape shape{8, 2, head_dim};
    shape.dtype = dtype;
    // The same sequence's last 40 rows as one prefill chunk, and its last 1, 3 and 9 rows by the decode kernel.
    std::vector<float> chunk;
    for (const int32_t rows : {40, 1, 3, 9}) {
      const bool decode = rows <= 16;
      const std::vector<SpanSpec> spans = {{700 - rows, rows}};
      AttentionStep step(context, shape, decode ? spans : std::vector<SpanSpec>{}, decode ? std::vector<SpanSpec>{} : spans);
      step.args.split_tokens = 256;
      std::vector<float> out = step.run(context, run_attention);
      out.resize(step.size());
      REQUIRE(std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); }));
      if (!decode) {
        chunk = out;
        continue;
      }
      INFO("head_dim " << head_dim << " rows " << rows);
      CHECK(std::equal(out.begin(), out.end(), chunk.end() - static_cast<std::ptrdiff_t>(out.size())));
    }
  }
}

TEST_CASE("cuda attention: splits side by side and one after the other give the same bits", "[cuda][attention]") {
  Context context(0, slipstream::test::feature_arch());
  int32_t compared = 0;
  for (const int32_t head_dim : {64, 96, 128, 256})
    for (const auto& [window, dtype] : {std::pair{0, DType::kBF16}, std::pair{1, DType::kBF16}, std::pair{100, DType::kBF16},
                                        std::pair{333, DType::kBF16}, std::pair{0, DType::kF8E4M3}, std::pair{100, DType::kF8E4M3}}) {
      AttentionShape shape{8, 2, head_dim};
      shape.window = window;
      shape.dtype = dtype;
      // Rows of one sequence by every way there is: in a chunk, in a longer chunk, as decode and verify rows beside others.
      std::vector<float> last_rows;  // rows 691..699 of the sequence, from the first way
      const auto check_rows = [&](const std::vector<float>& out, size_t first, size_t rows, size_t width) {
        const float* const wanted = last_rows.data() + last_rows.size() - rows * width;
        CHECK(std::equal(wanted, wanted + rows * width, out.data() + first * width));
        ++compared;
      };
      for (const bool side_by_side : {false, true})
        for (const int32_t rows : {9, 1, 4, 16, 40, 300}) {
          const bool decode = rows <= 16;
          std::vector<SpanSpec> spans = {{700 - rows, rows}};
          if (rows != 9) spans.push_back({64, std::min(rows, 3)}), spans.push_back({1500, rows});
          AttentionStep step(context, shape, decode ? spans : std::vector<SpanSpec>{}, decode ? std::vector<SpanSpec>{} : spans);
          step.args.split_tokens = 64;
          if (!side_by_side)  // room for one split of each row, so that none run side by side
            step.args.scratch_bytes = kAttentionCounterBytes + static_cast<size_t>(step.args.step.rows) * step.width() / static_cast<size_t>(head_dim) *
                                                                   static_cast<size_t>(head_dim + 2) * 4;
          const std::vector<float> out = step.run(context, run_attention);
          const size_t width = step.width(), kept = static_cast<size_t>(std::min(rows, 9));
          REQUIRE(std::all_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(step.size()), [](float x) { return std::isfinite(x); }));
          INFO(dtype_info(shape.dtype).name << " head_dim " << head_dim << " window " << shape.window << " rows " << rows << (side_by_side ? " side by side" : " serial"));
          if (last_rows.empty())
            last_rows.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(9 * width));
          else
            check_rows(out, static_cast<size_t>(rows) - kept, kept, width);
        }
    }
  CHECK(compared == 4 * 6 * 11);
}

TEST_CASE("cuda attention: block ids out of range read a wrong row, never foreign memory", "[cuda][attention][walls]") {
  Context context(0, GENERATE(slipstream::test::feature_arch(), 80));
  const int32_t head_dim = GENERATE(64, 80, 128);
  const int32_t split_tokens = head_dim == 80 ? 0 : GENERATE(0, 64);
  AttentionStep step(context, {8, 2, head_dim}, {{500, 1}, {900, 3}, {40, 1}}, {{100, 70}, {300, 40}});
  step.args.split_tokens = split_tokens;
  const std::vector<float> good = step.run(context, run_attention);
  // spans 1 (rows 1..3) and 5 (the last 40 rows) lose their tables
  const auto entries = static_cast<size_t>(step.args.step.table_stride);
  std::vector<int32_t> wild(entries);
  for (size_t i = 0; i < entries; ++i)
    wild[i] = i % 3 == 0 ? std::numeric_limits<int32_t>::max() : i % 3 == 1 ? std::numeric_limits<int32_t>::min() : step.args.kv_blocks;
  auto* tables = const_cast<int32_t*>(step.args.step.block_tables) + static_cast<size_t>(step.args.step.max_spans) * entries;
  for (const size_t span : {size_t{1}, size_t{5}})
    check(cudaMemcpy(tables + span * entries, wild.data(), entries * 4, cudaMemcpyHostToDevice), "plant block ids");
  const std::vector<float> beside = step.run(context, run_attention);
  const size_t width = step.width(), rows = step.size() / width;
  REQUIRE(rows == 5 + 110);
  for (size_t r = 0; r < rows; ++r) {
    if ((r >= 1 && r <= 3) || r >= 75) continue;
    INFO("head_dim " << head_dim << " split_tokens " << split_tokens << " row " << r);
    REQUIRE(std::equal(good.begin() + static_cast<std::ptrdiff_t>(r * width), good.begin() + static_cast<std::ptrdiff_t>((r + 1) * width),
                       beside.begin() + static_cast<std::ptrdiff_t>(r * width)));
  }
}

TEST_CASE("cuda attention: a NaN row fails alone, and launches leave the counters zero", "[cuda][attention]") {
  Context context(0, GENERATE(slipstream::test::feature_arch(), 80));
  AttentionShape shape{8, 2, 128};
  shape.dtype = GENERATE(DType::kBF16, DType::kF8E4M3);
  AttentionStep step(context, shape, {{500, 1}, {900, 1}, {40, 1}}, {{100, 70}});
  const std::vector<float> good = step.run(context, run_attention);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check(cudaMemcpy(const_cast<float*>(step.args.q) + step.width(), &nan, 4, cudaMemcpyHostToDevice), "poison q");
  const std::vector<float> bad = step.run(context, run_attention);
  for (size_t i = 0; i < step.size(); ++i) {
    const bool poisoned = i >= step.width() && i < step.width() + 128;  // row 1, head 0
    if (poisoned ? !std::isnan(bad[i]) : bad[i] != good[i]) FAIL("element " << i << " is " << bad[i] << ", was " << good[i]);
  }
  std::vector<uint32_t> counters(kAttentionCounterBytes / 4);
  check(cudaMemcpy(counters.data(), step.args.scratch, kAttentionCounterBytes, cudaMemcpyDeviceToHost), "read counters");
  CHECK(std::all_of(counters.begin(), counters.end(), [](uint32_t x) { return x == 0; }));
}

TEST_CASE("cuda attention: split plans fill the GPU and stay inside the scratch", "[cuda][attention]") {
  using attn::plan_splits;
  CHECK(plan_splits({.ctas = 8, .slots = 264, .tokens = 8192, .tile = 64, .max_splits = 1 << 20}).splits >= 16);
  CHECK(plan_splits({.ctas = 8, .slots = 264, .tokens = 8192, .tile = 64, .max_splits = 5}).splits <= 5);
  CHECK(plan_splits({.ctas = 8, .slots = 264, .tokens = 64, .tile = 64, .max_splits = 1 << 20}).splits == 1);
  CHECK(plan_splits({.ctas = 4096, .slots = 264, .tokens = 1024, .tile = 64, .max_splits = 1 << 20}).splits == 1);
  const attn::SplitPlan fixed =
      plan_splits({.ctas = 8, .slots = 264, .tokens = 1025, .tile = 64, .max_splits = 64, .fixed_tokens = 512});
  CHECK(fixed.splits == 3);
  CHECK(fixed.split_tokens == 512);
  for (const int32_t tokens : {1, 63, 65, 777, 8192, 131072}) {
    const attn::SplitPlan plan = plan_splits({.ctas = 8, .slots = 264, .tokens = tokens, .tile = 64, .max_splits = 1000});
    CHECK(plan.split_tokens % 64 == 0);
    CHECK(int64_t{plan.splits} * plan.split_tokens >= tokens);
    CHECK(int64_t{plan.splits - 1} * plan.split_tokens < tokens);
  }
}
