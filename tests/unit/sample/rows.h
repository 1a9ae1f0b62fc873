// Random logits and one-row calls for the sampler tests.
#pragma once

#include <random>
#include <vector>

#include "kernels/sample.h"
#include "kernels/sample_kernels.h"

namespace slipstream::test {

inline std::vector<float> random_logits(int32_t vocab, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& x : logits) x = normal(random);
  return logits;
}

inline SampledToken by_reference(const std::vector<float>& logits, const SampleRow& row) {
  SampledToken out;
  reference_sample({logits.data(), 1, static_cast<int32_t>(logits.size()), &row, &out});
  return out;
}

inline SampledToken by_cpu(const std::vector<float>& logits, const SampleRow& row, bool vector) {
  SampledToken out;
  cpu_sample_row(logits.data(), static_cast<int32_t>(logits.size()), row, vector, &out);
  return out;
}

}  // namespace slipstream::test
