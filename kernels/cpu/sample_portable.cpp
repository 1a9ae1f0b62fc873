// Portable whole-row passes: the readable twin of sample_avx2.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/sample_vector.h"
#include "kernels/sample_law.h"

namespace slipstream {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool scan(const float* x, int32_t n, float* max) {
  *max = -kInfinity;
  for (int32_t i = 0; i < n; ++i) {
    if (!(x[i] < kInfinity)) return false;
    *max = std::max(*max, x[i]);
  }
  return *max > -kInfinity;
}

int32_t argmax(const float* x, int32_t n) {
  int32_t best = 0;
  for (int32_t i = 1; i < n; ++i)
    if (x[i] > x[best]) best = i;
  return best;
}

float divide(float* x, int32_t n, float divisor) {
  float max = -kInfinity;
  for (int32_t i = 0; i < n; ++i) {
    x[i] /= divisor;
    max = std::max(max, x[i]);
  }
  return max;
}

uint64_t mass_sum(const float* x, int32_t n, float max) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += law::mass(x[i] - max);
  return sum;
}

int32_t noisy_argmax(const float* x, int32_t n, float floor, const NoiseKey& key) {
  int32_t best = -1;
  float best_value = -kInfinity;
  for (int32_t i = 0; i < n; ++i) {
    if (!(x[i] >= floor) || x[i] == -kInfinity) continue;
    const float value = x[i] + law::token_noise(key.seed, key.choice, key.position, i);
    if (best < 0 || value > best_value) {
      best = i;
      best_value = value;
    }
  }
  return best;
}

}  // namespace

const SampleVector& portable_sample_vector() {
  static constexpr SampleVector table{scan, argmax, divide, mass_sum, noisy_argmax};
  return table;
}

}  // namespace slipstream
