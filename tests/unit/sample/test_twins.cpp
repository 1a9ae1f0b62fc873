// The sorting oracle, the portable passes and the AVX2 passes give the same bits over random rows and parameters.
#include <cstring>

#include "kernels/cpu/sample_vector.h"
#include "tests/catch.h"
#include "tests/unit/sample/rows.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

bool same(const SampledToken& a, const SampledToken& b) {
  return a.token == b.token && a.non_finite == b.non_finite && std::memcmp(&a.logprob, &b.logprob, 4) == 0 &&
         a.top_count == b.top_count && std::equal(a.top_ids, a.top_ids + a.top_count, b.top_ids) &&
         std::memcmp(a.top_logprobs, b.top_logprobs, sizeof(float) * a.top_count) == 0;
}

}  // namespace

TEST_CASE("three samplers agree on random rows") {
  std::mt19937 random(7);
  const auto uniform = [&](double low, double high) { return std::uniform_real_distribution<float>(low, high)(random); };
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int sampled = 0;
  for (int round = 0; round < 600; ++round) {
    const int32_t vocab = round % 5 == 0 ? integer(1, 40) : integer(200, 3000);
    std::vector<float> logits = random_logits(vocab, uniform(0.1, 6), static_cast<uint32_t>(round));
    if (round % 3 == 0)
      for (float& x : logits) x = std::round(x * 2) / 2;  // many ties
    std::vector<int32_t> prompt(integer(0, 50)), output(integer(0, 50));
    for (int32_t& token : prompt) token = integer(0, vocab - 1);
    for (int32_t& token : output) token = integer(0, vocab - 1);
    std::vector<LogitBias> bias(integer(0, 3));
    for (LogitBias& b : bias) b = {integer(0, vocab - 1), uniform(-100, 5)};
    SampleRow row;
    row.temperature = integer(0, 3) == 0 ? 1.0f : uniform(0.2, 2);
    row.top_k = integer(0, 2) == 0 ? integer(1, 60) : 0;
    row.top_p = integer(0, 2) == 0 ? uniform(0.05, 1) : 1.0f;
    row.min_p = integer(0, 2) == 0 ? uniform(0, 0.3) : 0.0f;
    if (integer(0, 1) == 0) {
      row.repetition_penalty = uniform(0.7, 1.5);
      row.frequency_penalty = uniform(-1, 1);
      row.presence_penalty = uniform(-1, 1);
    }
    row.seed = random();
    row.choice = integer(0, 3);
    row.position = integer(0, 100000);
    row.top_logprobs = integer(-1, 20);
    row.prompt_tokens = prompt;
    row.output_tokens = output;
    row.bias = bias;
    const SampledToken reference = by_reference(logits, row);
    INFO("round " << round << " vocab " << vocab << " k " << row.top_k << " p " << row.top_p << " min " << row.min_p);
    REQUIRE(same(by_cpu(logits, row, false), reference));
    REQUIRE(same(by_cpu(logits, row, true), reference));
    sampled += reference.token >= 0;
  }
  CHECK(sampled == 600);
}

TEST_CASE("vector passes equal the portable ones") {
  const SampleVector& a = portable_sample_vector();
  const SampleVector& b = best_sample_vector();
  for (const int32_t n : {1, 7, 8, 9, 31, 32, 33, 1000, 4097}) {
    const std::vector<float> x = random_logits(n, 5, static_cast<uint32_t>(n));
    float max_a = 0, max_b = 0;
    REQUIRE(a.scan(x.data(), n, &max_a));
    REQUIRE(b.scan(x.data(), n, &max_b));
    CHECK(max_a == max_b);
    CHECK(a.argmax(x.data(), n) == b.argmax(x.data(), n));
    CHECK(a.mass_sum(x.data(), n, max_a) == b.mass_sum(x.data(), n, max_b));
    for (int32_t position = 0; position < 50; ++position) {
      const NoiseKey key{0x1234567890ABCDEFull, position % 3, position};
      CHECK(a.noisy_argmax(x.data(), n, -2.0f, key) == b.noisy_argmax(x.data(), n, -2.0f, key));
    }
    std::vector<float> p = x, q = x;
    CHECK(a.divide(p.data(), n, 0.7f) == b.divide(q.data(), n, 0.7f));
    CHECK(p == q);
  }
}
