// The device sampler against the sorting oracle, bit for bit: thousands of random rows over every kind of logits and every
// combination of parameters, and the ways in which rows reach it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/graph.h"
#include "kernels/cuda/sample.h"
#include "kernels/sample_kernels.h"
#include "tests/catch.h"
#include "tests/cuda/feature_level.h"

using namespace slipstream;
using namespace slipstream::cuda;

namespace {

bool same(const SampledToken& a, const SampledToken& b) {
  return a.token == b.token && a.non_finite == b.non_finite && std::memcmp(&a.logprob, &b.logprob, 4) == 0 &&
         a.top_count == b.top_count && std::equal(a.top_ids, a.top_ids + a.top_count, b.top_ids) &&
         std::memcmp(a.top_logprobs, b.top_logprobs, sizeof(float) * static_cast<size_t>(a.top_count)) == 0;
}

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}
  float uniform(double low, double high) { return std::uniform_real_distribution<float>(static_cast<float>(low), static_cast<float>(high))(random_); }
  int32_t integer(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }
  bool once_in(int32_t n) { return integer(1, n) == 1; }
  float normal() { return std::normal_distribution<float>()(random_); }
  template <class T>
  T one_of(std::initializer_list<T> values) { return values.begin()[integer(0, static_cast<int32_t>(values.size()) - 1)]; }
  std::mt19937& source() { return random_; }

 private:
  std::mt19937 random_;
};

enum Kind { kNormal, kTies, kEqual, kFlat, kHuge, kHoles, kDenormal, kZeros, kSpike, kNaN, kInfinite, kNothing, kLonely, kExtreme, kOutlier, kCode, kKinds };

void fill_logits(Dice& dice, Kind kind, float* x, int32_t vocab) {
  const float none = -std::numeric_limits<float>::infinity();
  const float spread = dice.uniform(0.1, 6);
  for (int32_t v = 0; v < vocab; ++v) x[v] = spread * dice.normal();
  const int32_t place = dice.integer(0, vocab - 1);
  for (int32_t v = 0; v < vocab; ++v) {
    switch (kind) {
      case kTies: x[v] = std::round(x[v] * 2) / 2; break;
      case kEqual: x[v] = 3.25f; break;
      case kFlat: x[v] *= 1e-4f; break;
      case kHuge: x[v] *= 1e30f; break;
      case kHoles: if (dice.once_in(2)) x[v] = none; break;
      case kDenormal: x[v] *= 1e-41f; break;
      case kZeros: x[v] = dice.once_in(2) ? 0.0f : -0.0f; break;
      case kSpike: if (v == place) x[v] = 60; break;
      case kNaN: if (v == place) x[v] = dice.once_in(2) ? NAN : -NAN; break;
      case kInfinite: if (v == place) x[v] = INFINITY; break;
      case kNothing: x[v] = none; break;
      case kLonely: if (v != place) x[v] = none; break;
      case kExtreme: x[v] = dice.once_in(2) ? 3.4e38f : -3.4e38f; break;
      case kOutlier: if (v == place) x[v] = -1e30f; break;
      case kCode: x[v] = 4 * x[v] - (v % 7 == 0 ? 0.0f : 15.0f); break;
      default: break;
    }
  }
}

/// Rows with everything that they borrow.
struct Rows {
  int32_t vocab;
  std::vector<float> logits;
  std::vector<SampleRow> laws;
  std::span<const int32_t> whole_output;  // of the newest history
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<LogitBias>> biases;
  std::vector<std::vector<uint32_t>> masks;

  std::vector<int32_t>& tokens(Dice& dice, int32_t count) {
    ids.emplace_back(static_cast<size_t>(count));
    for (int32_t& token : ids.back()) token = dice.integer(0, vocab - 1);
    return ids.back();
  }

  void add(Dice& dice, Kind kind, SampleVariant variant) {
    const size_t first = logits.size();
    logits.resize(first + static_cast<size_t>(vocab));
    fill_logits(dice, kind, logits.data() + first, vocab);
    SampleRow row;
    row.position = dice.integer(0, 100000);
    row.choice = dice.integer(0, 3);
    row.seed = static_cast<uint64_t>(dice.source()()) << 32 | dice.source()();
    if (variant == SampleVariant::kGreedy) {
      row.temperature = dice.one_of({0.0f, 1e-6f, 1.0f});
      if (row.temperature == 1.0f) row.top_k = 1;
      laws.push_back(row);
      return;
    }
    row.temperature = dice.one_of({1.0f, 1.0f, 0.0f, 1e-5f, 1e-4f, 0.01f, 100.0f, dice.uniform(0.2, 2), dice.uniform(0.2, 2)});
    if (dice.once_in(2)) row.top_k = dice.one_of({1, 2, 20, 50, dice.integer(1, 60), vocab / 2 + 1, vocab - 1, vocab, 1 << 20});
    if (row.top_k < 0) row.top_k = 0;
    if (dice.once_in(2)) row.top_p = dice.one_of({0.9f, 0.95f, 1e-7f, 0.9999999f, dice.uniform(0.05, 1)});
    if (dice.once_in(3)) row.min_p = dice.one_of({0.05f, 1.0f, 1e-9f, dice.uniform(0, 0.3)});
    if (dice.once_in(2)) {
      if (dice.once_in(2)) row.repetition_penalty = dice.one_of({0.01f, 10.0f, dice.uniform(0.7, 1.5)});
      if (dice.once_in(2)) row.frequency_penalty = dice.uniform(-2, 2);
      if (dice.once_in(2)) row.presence_penalty = dice.uniform(-2, 2);
    }
    if (dice.once_in(3) && !laws.empty()) {  // a verify span: the history of the row before it and more
      const SampleRow& before = laws.back();
      row.prompt_tokens = before.prompt_tokens;
      row.output_tokens = whole_output.first(static_cast<size_t>(dice.integer(0, static_cast<int32_t>(whole_output.size()))));
      row.repetition_penalty = before.repetition_penalty;
    } else {
      row.prompt_tokens = tokens(dice, dice.integer(0, 80));
      whole_output = tokens(dice, dice.integer(0, 80));
      row.output_tokens = whole_output.first(static_cast<size_t>(dice.integer(0, static_cast<int32_t>(whole_output.size()))));
    }
    if (dice.once_in(3)) {
      biases.emplace_back(static_cast<size_t>(dice.integer(1, 6)));
      for (LogitBias& bias : biases.back()) bias = {dice.integer(0, std::min(vocab - 1, 12)), dice.uniform(-100, 5)};
      row.bias = biases.back();
    }
    if (dice.once_in(4)) row.suppressed = tokens(dice, dice.integer(1, 4));
    if (variant == SampleVariant::kFull) {
      row.top_logprobs = dice.integer(-1, 20);
      if (dice.once_in(3)) {
        masks.emplace_back(static_cast<size_t>(vocab + 31) / 32);
        const int32_t density = dice.integer(0, 3);
        for (uint32_t& word : masks.back()) {
          word = density == 0 ? ~0u : dice.source()();
          if (density >= 2) word &= dice.source()() & dice.source()();
          if (density == 3) word &= dice.source()() & dice.source()() & dice.source()();
        }
        row.mask = masks.back().data();
      }
    }
    laws.push_back(row);
  }

  explicit Rows(int32_t words) : vocab(words) {
    // borrowed pointers must stand still
    ids.reserve(2048), biases.reserve(1024), masks.reserve(1024);
  }
};

std::string describe(const Rows& rows, size_t r, const SampledToken& drawn, const SampledToken& expected) {
  const SampleRow& law = rows.laws[r];
  std::string text = "row " + std::to_string(r) + " of vocab " + std::to_string(rows.vocab);
  const auto add = [&](const char* name, double value) { text += std::string(" ") + name + " " + std::to_string(value); };
  add("T", law.temperature), add("k", law.top_k), add("p", law.top_p), add("min", law.min_p);
  add("rep", law.repetition_penalty), add("freq", law.frequency_penalty), add("pres", law.presence_penalty);
  add("bias", static_cast<double>(law.bias.size())), add("mask", law.mask != nullptr), add("top", law.top_logprobs);
  add("drew", drawn.token), add("expected", expected.token), add("logprob", drawn.logprob), add("expected", expected.logprob);
  add("tops", drawn.top_count), add("expected", expected.top_count);
  return text;
}

struct Gpu {
  Context context{0, slipstream::test::feature_arch()};
  Buffer logits;
  float* upload(const std::vector<float>& host) {
    context.synchronize();
    if (logits.bytes() < host.size() * sizeof(float)) {
      logits.reset();
      logits = context.allocate(host.size() * sizeof(float));
    }
    check(cudaMemcpyAsync(logits.data(), host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice, context.stream()), "upload");
    context.synchronize();
    return logits.as<float>();
  }
};

/// Rows that differ from the reference.
int compare(Gpu& gpu, SampleUpload& upload, const Rows& rows, int* drawn_count) {
  const auto count = static_cast<int32_t>(rows.laws.size());
  std::vector<SampledToken> expected(rows.laws.size()), drawn(rows.laws.size());
  reference_sample({rows.logits.data(), count, rows.vocab, rows.laws.data(), expected.data()});
  upload.sample({gpu.upload(rows.logits), count, rows.vocab, rows.laws.data(), drawn.data()});
  int bad = 0;
  for (size_t r = 0; r < rows.laws.size(); ++r) {
    *drawn_count += expected[r].token >= 0;
    if (same(drawn[r], expected[r])) continue;
    if (++bad <= 3) UNSCOPED_INFO(describe(rows, r, drawn[r], expected[r]));
  }
  return bad;
}

}  // namespace

TEST_CASE("the device sampler equals the oracle on random rows", "[sample]") {
  Gpu gpu;
  Dice dice(20260);
  int rows_total = 0, drawn = 0;
  for (int round = 0; round < 120; ++round) {
    const int32_t vocab = round % 6 == 0 ? dice.integer(1, 40) : round % 6 == 1 ? dice.integer(4097, 12000) : dice.integer(100, 3000) & ~(round % 2 ? 3 : 0);
    const SampleVariant variant = round % 4 == 0 ? SampleVariant::kSampled : SampleVariant::kFull;
    Rows rows(std::max(1, vocab));
    const int32_t count = round % 10 == 0 ? dice.integer(65, 150) : dice.integer(1, 64);
    for (int32_t r = 0; r < count; ++r) rows.add(dice, static_cast<Kind>(dice.integer(0, kKinds - 1)), variant);
    SampleUpload upload(gpu.context);
    INFO("round " << round);
    REQUIRE(compare(gpu, upload, rows, &drawn) == 0);
    rows_total += count;
  }
  CHECK(rows_total > 3500);
  CHECK(drawn > rows_total * 3 / 4);
}

TEST_CASE("vocabularies of real models, lists that overflow", "[sample]") {
  Gpu gpu;
  Dice dice(7);
  int drawn = 0;
  for (const int32_t vocab : {49152, 50257, 151936}) {
    SampleUpload upload(gpu.context);
    upload.reserve(32, vocab, 4096);
    const int64_t before = gpu.context.allocations();
    Rows rows(vocab);
    for (const Kind kind : {kNormal, kNormal, kTies, kEqual, kFlat, kHoles, kCode, kCode, kOutlier, kZeros})
      rows.add(dice, kind, SampleVariant::kFull);
    INFO("vocab " << vocab);
    REQUIRE(compare(gpu, upload, rows, &drawn) == 0);
    CHECK(gpu.context.allocations() == before + 1);  // the logits
  }
  CHECK(drawn > 20);
}

TEST_CASE("greedy rows by the greedy kernel", "[sample]") {
  Gpu gpu;
  Dice dice(3);
  int drawn = 0;
  for (const int32_t vocab : {1, 3, 4, 31, 500, 2049, 49152}) {
    Rows rows(vocab);
    const int32_t count = vocab > 10000 ? 5 : 100;
    for (int32_t r = 0; r < count; ++r) rows.add(dice, static_cast<Kind>(dice.integer(0, kKinds - 1)), SampleVariant::kGreedy);
    REQUIRE(variant_of(rows.laws.data(), count) == SampleVariant::kGreedy);
    SampleUpload upload(gpu.context);
    INFO("vocab " << vocab);
    REQUIRE(compare(gpu, upload, rows, &drawn) == 0);
    REQUIRE(compare(gpu, upload, rows, &drawn) == 0);  // the scratch was left as it was found
  }
  CHECK(drawn > 500);
}

TEST_CASE("histories beyond the reserve are drawn in several runs, none is dropped", "[sample]") {
  Gpu gpu;
  Dice dice(5);
  const int32_t vocab = 1000, history = 3000;
  SampleUpload upload(gpu.context);
  upload.reserve(40, vocab, history);
  Rows rows(vocab);
  for (int32_t r = 0; r < 40; ++r) {
    rows.add(dice, kNormal, SampleVariant::kSampled);
    SampleRow& law = rows.laws.back();
    law.frequency_penalty = 0.3f;
    law.repetition_penalty = 1.1f;
    law.prompt_tokens = rows.tokens(dice, history / 2);
    law.output_tokens = rows.tokens(dice, history / 2);
  }
  int drawn = 0;
  const int64_t before = gpu.context.allocations();
  REQUIRE(compare(gpu, upload, rows, &drawn) == 0);
  CHECK(drawn == 40);
  CHECK(gpu.context.allocations() == before + 1);

  const std::vector<int32_t> endless(100000, 7);
  rows.laws[0].prompt_tokens = endless;
  std::vector<SampledToken> out(40);
  CHECK_THROWS_AS(upload.sample({gpu.logits.as<float>(), 40, vocab, rows.laws.data(), out.data()}), DeviceError);
}

TEST_CASE("a captured graph draws anew at every replay, and skips rows without a position", "[sample]") {
  Gpu gpu;
  Dice dice(11);
  const int32_t vocab = 2048, count = 6;
  Rows rows(vocab);
  for (int32_t r = 0; r < count; ++r) {
    rows.add(dice, kNormal, SampleVariant::kSampled);
    SampleRow& law = rows.laws.back();
    law = SampleRow{};
    law.seed = static_cast<uint64_t>(r);
    law.top_p = 0.9f;
    law.top_k = r % 2 == 0 ? 0 : 40;
  }
  const float* logits = gpu.upload(rows.logits);
  Buffer scratch = gpu.context.allocate(sample_scratch_bytes(count, vocab));
  Buffer law = gpu.context.allocate(count * sizeof(DeviceSampleRow)), out = gpu.context.allocate(count * sizeof(SampledToken));
  SampleArgs args{logits, count, vocab, law.as<DeviceSampleRow>(), out.as<SampledToken>(), scratch.data(), count, SampleVariant::kSampled};
  const Graph graph(gpu.context, [&] { sample(gpu.context, args); });
  for (int32_t position = 0; position < 40; ++position) {
    std::vector<DeviceSampleRow> laws(count);
    std::vector<SampledToken> expected(count), drawn(count);
    for (int32_t r = 0; r < count; ++r) {
      auto i = static_cast<size_t>(r);
      rows.laws[i].position = position;
      laws[i].seed = rows.laws[i].seed;
      laws[i].top_p = rows.laws[i].top_p;
      laws[i].top_k = rows.laws[i].top_k;
      laws[i].position = r == 3 ? -1 : position;
      drawn[i].token = -77;
    }
    reference_sample({rows.logits.data(), count, vocab, rows.laws.data(), expected.data()});
    check(cudaMemcpyAsync(law.data(), laws.data(), law.bytes(), cudaMemcpyHostToDevice, gpu.context.stream()), "upload");
    check(cudaMemcpyAsync(out.data(), drawn.data(), out.bytes(), cudaMemcpyHostToDevice, gpu.context.stream()), "upload");
    graph.replay(gpu.context);
    check(cudaMemcpyAsync(drawn.data(), out.data(), out.bytes(), cudaMemcpyDeviceToHost, gpu.context.stream()), "download");
    gpu.context.synchronize();
    for (size_t r = 0; r < count; ++r) {
      INFO("position " << position << " row " << r);
      REQUIRE(drawn[r].token == (r == 3 ? -77 : expected[r].token));
    }
  }
}
