// The whole-row passes of cpu sampling, as a table: a portable one and an AVX2 one with equal bits.
// Knows arrays of logits; no rules.
#pragma once

#include <cstdint>

namespace slipstream {

/// Which draw: the noise of token v is law::token_noise(seed, choice, position, v).
struct NoiseKey {
  uint64_t seed = 0;
  int32_t choice = 0;
  int32_t position = 0;
};

struct SampleVector {
  /// False when an element is NaN or +inf, or all are -inf; *max is the largest element otherwise.
  bool (*scan)(const float* x, int32_t n, float* max);
  /// Lowest index of the largest element.
  int32_t (*argmax)(const float* x, int32_t n);
  /// x /= divisor; returns the largest quotient.
  float (*divide)(float* x, int32_t n, float divisor);
  /// Sum of law::mass(x[i] - max).
  uint64_t (*mass_sum)(const float* x, int32_t n, float max);
  /// Index of the largest x[i] + noise among x[i] >= floor and x[i] > -inf; the lower index among equals; -1 if none.
  int32_t (*noisy_argmax)(const float* x, int32_t n, float floor, const NoiseKey& key);
};

const SampleVector& portable_sample_vector();
/// The best table that this machine runs.
const SampleVector& best_sample_vector();

}  // namespace slipstream
