// See rope.h.
#include "engine/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace slipstream {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

/// Llama 3.1: waves longer than context / low are slowed by the factor, those shorter than context / high stay, and
/// those between are blended.
double llama3_frequency(double f, const ModelConfig& c) {
  const double turns = c.rope_original_context * f / kTurn;  // full turns within the original context
  if (turns < c.rope_low_freq_factor) return f / c.rope_factor;
  if (turns > c.rope_high_freq_factor) return f;
  const double blend = (turns - c.rope_low_freq_factor) / (c.rope_high_freq_factor - c.rope_low_freq_factor);
  return (1 - blend) * f / c.rope_factor + blend * f;
}

/// YaRN: the pair index at which a frequency makes `turns` turns within the original context.
double yarn_pair(double turns, const ModelConfig& c) {
  return c.rope_dim * std::log(c.rope_original_context / (turns * kTurn)) / (2 * std::log(double{c.rope_theta}));
}

struct YarnRange {
  double low, high;
};

YarnRange yarn_range(const ModelConfig& c) {
  double low = yarn_pair(c.rope_beta_fast, c), high = yarn_pair(c.rope_beta_slow, c);
  if (c.rope_truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(c.rope_dim - 1));
  if (low == high) high += 0.001;  // as transformers does, so that the ramp is a step
  return {low, high};
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const ModelConfig& c) {
  const int32_t pairs = c.rope_dim / 2;
  const YarnRange range = c.rope_scaling == RopeScaling::kYarn ? yarn_range(c) : YarnRange{0, 1};
  std::vector<float> out(static_cast<size_t>(pairs));
  for (int32_t i = 0; i < pairs; ++i) {
    double f = std::pow(double{c.rope_theta}, -2.0 * i / c.rope_dim);
    switch (c.rope_scaling) {
      case RopeScaling::kNone: break;
      case RopeScaling::kLinear: f /= c.rope_factor; break;
      case RopeScaling::kLlama3: f = llama3_frequency(f, c); break;
      case RopeScaling::kYarn: {
        const double slow = std::clamp((i - range.low) / (range.high - range.low), 0.0, 1.0);
        f = (1 - slow) * f + slow * f / c.rope_factor;
        break;
      }
    }
    if (!c.rope_freqs.empty()) f /= c.rope_freqs[static_cast<size_t>(i)];
    out[static_cast<size_t>(i)] = static_cast<float>(f);
  }
  return out;
}

}  // namespace slipstream
