// The rules of kernels/sample.h on hand-made rows: who survives each filter, and in which order they act.
#include <cmath>
#include <set>

#include "tests/catch.h"
#include "tests/unit/sample/rows.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

// Every token that 4,000 draws of different positions give, by all three samplers.
std::set<int32_t> support(const std::vector<float>& logits, SampleRow row) {
  std::set<int32_t> reference, portable, vector;
  for (int32_t position = 0; position < 4000; ++position) {
    row.position = position;
    reference.insert(by_reference(logits, row).token);
    portable.insert(by_cpu(logits, row, false).token);
    vector.insert(by_cpu(logits, row, true).token);
  }
  CHECK(portable == reference);
  CHECK(vector == reference);
  return reference;
}

std::vector<float> log_of(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

}  // namespace

TEST_CASE("greedy takes the lower id among equals") {
  SampleRow row;
  row.temperature = 0;
  CHECK(by_reference({1, 5, 5, 2}, row).token == 1);
  CHECK(by_cpu({1, 5, 5, 2}, row, true).token == 1);
  row.temperature = 1;
  row.top_k = 1;
  CHECK(by_cpu({1, 5, 5, 2}, row, true).token == 1);
}

TEST_CASE("top-k keeps the lower ids among ties") {
  SampleRow row;
  row.top_k = 3;
  CHECK(support({1, 2, 1, 2, 1, 2, 2, 0}, row) == std::set<int32_t>{1, 3, 5});
}

TEST_CASE("top-p keeps the boundary class whole") {
  SampleRow row;
  row.top_p = 0.6f;  // 0.5 is not enough; the class of 0.2s reaches it
  CHECK(support(log_of({0.5f, 0.2f, 0.1f, 0.2f}), row) == std::set<int32_t>{0, 1, 3});
  row.top_p = 0.4f;
  CHECK(support(log_of({0.5f, 0.2f, 0.1f, 0.2f}), row) == std::set<int32_t>{0});
}

TEST_CASE("top-p is taken over the survivors of top-k") {
  SampleRow row;
  row.top_k = 2;
  row.top_p = 0.55f;  // of {0.4, 0.3}: 0.4 / 0.7 = 0.571 reaches it alone
  CHECK(support(log_of({0.4f, 0.3f, 0.2f, 0.1f}), row) == std::set<int32_t>{0});
  row.top_p = 0.6f;
  CHECK(support(log_of({0.4f, 0.3f, 0.2f, 0.1f}), row) == std::set<int32_t>{0, 1});
}

TEST_CASE("min-p is relative to the most likely token, after the temperature") {
  SampleRow row;
  row.min_p = 0.3f;
  CHECK(support(log_of({0.5f, 0.2f, 0.1f, 0.2f}), row) == std::set<int32_t>{0, 1, 3});
  row.temperature = 0.5f;  // 0.16 and 0.04 of the best
  CHECK(support(log_of({0.5f, 0.2f, 0.1f, 0.2f}), row) == std::set<int32_t>{0});
}

TEST_CASE("bias, suppression and masks come before everything") {
  SampleRow row;
  row.temperature = 0;
  const LogitBias bias[] = {{2, 10.0f}};
  row.bias = bias;
  CHECK(by_reference({1, 5, 0, 2}, row).token == 2);
  CHECK(by_cpu({1, 5, 0, 2}, row, true).token == 2);
  const int32_t suppressed[] = {2};
  row.suppressed = suppressed;
  CHECK(by_cpu({1, 5, 0, 2}, row, true).token == 1);
  const uint32_t mask[] = {0b1101};
  row.mask = mask;
  CHECK(by_cpu({1, 5, 0, 2}, row, true).token == 3);
  CHECK(by_reference({1, 5, 0, 2}, row).token == 3);
  const uint32_t nothing[] = {0};
  row.mask = nothing;
  CHECK(by_cpu({1, 5, 0, 2}, row, true).non_finite);
  CHECK(by_reference({1, 5, 0, 2}, row).non_finite);
}

TEST_CASE("penalties: repetition sees prompt and output once, frequency and presence the output") {
  SampleRow row;
  row.temperature = 0;
  row.repetition_penalty = 2;
  const int32_t prompt[] = {0, 0, 0};
  const int32_t output[] = {1, 1};
  row.prompt_tokens = prompt;
  row.output_tokens = output;
  CHECK(by_cpu({4.0f, 3.9f, 1.99f, 2.01f}, row, true).token == 3);   // 2, 1.95, 1.99, 2.01
  CHECK(by_cpu({4.04f, 3.9f, 1.99f, 2.01f}, row, true).token == 0);  // 2.02: once, not three times
  row.repetition_penalty = 1;
  row.frequency_penalty = 0.5f;  // twice
  row.presence_penalty = 0.25f;  // once
  CHECK(by_cpu({1.0f, 2.24f, 0, 0}, row, true).token == 0);          // 2.24 - 1.25 = 0.99
  CHECK(by_cpu({1.0f, 2.26f, 0, 0}, row, true).token == 1);
  CHECK(by_reference({1.0f, 2.24f, 0, 0}, row).token == 0);
}

TEST_CASE("a row that is not finite says so") {
  SampleRow row;
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> logits(40, 0.0f);
    logits[17] = bad;
    CHECK(by_reference(logits, row).non_finite);
    CHECK(by_cpu(logits, row, true).non_finite);
    CHECK(by_cpu(logits, row, false).token == -1);
  }
  CHECK(by_cpu(std::vector<float>(40, -INFINITY), row, true).non_finite);
}

TEST_CASE("logprobs are of the raw logits") {
  SampleRow row;
  row.temperature = 0;
  row.top_logprobs = 2;
  const LogitBias bias[] = {{3, 100.0f}};
  row.bias = bias;
  const SampledToken out = by_cpu(log_of({0.5f, 0.2f, 0.1f, 0.2f}), row, true);
  CHECK(out.token == 3);
  CHECK(out.logprob == Approx(std::log(0.2)).epsilon(1e-5));
  REQUIRE(out.top_count == 2);
  CHECK(out.top_ids[0] == 0);
  CHECK(out.top_ids[1] == 1);
  CHECK(out.top_logprobs[0] == Approx(std::log(0.5)).epsilon(1e-5));
}

TEST_CASE("top logprobs leave out what has no probability at all") {
  SampleRow row;
  row.temperature = 0;
  row.top_logprobs = 3;
  const std::vector<float> logits = {-INFINITY, 1.0f, -INFINITY, 2.0f};
  for (const SampledToken& out : {by_reference(logits, row), by_cpu(logits, row, false), by_cpu(logits, row, true)}) {
    REQUIRE(out.top_count == 2);
    CHECK(out.top_ids[0] == 3);
    CHECK(out.top_ids[1] == 1);
  }
}
