// See synthetic_acceptance.h.
#include "engine/spec/synthetic_acceptance.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace slipstream {
namespace {

constexpr const char* kParam = "speculative-config.synthetic-acceptance";

/// Bits of a stream of their own, so that they follow no draw of the sampler (splitmix64's finaliser).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

double sum_of_powers(double p, int32_t count) {
  double sum = 0, power = 1;
  for (int32_t i = 0; i < count; ++i) sum += power *= p;
  return sum;
}

}  // namespace

Result<SyntheticAcceptance> SyntheticAcceptance::parse(const std::string& text, int32_t drafts) {
  std::vector<double> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    const bool good = error == std::errc() && std::isfinite(value) && (next == end || *next == ',');
    if (!good || numbers.size() >= 64)
      return invalid_argument(std::string(kParam) + " \"" + text.substr(0, 40) + "\" is neither an acceptance length like 3.5 nor rates "
                              "like 0.9,0.8,0.5", kParam);
    numbers.push_back(value);
    if (next == end) break;
    at = next + 1;
  }
  if (numbers.size() > 1) {
    for (const double rate : numbers)
      if (rate < 0 || rate > 1)
        return invalid_argument(std::string(kParam) + ": a rate is outside of 0 to 1 in " + text.substr(0, 80), kParam);
    return SyntheticAcceptance(std::move(numbers));
  }
  const double length = numbers[0];
  if (length < 1 || length > 1 + drafts)
    return invalid_argument(std::string(kParam) + " " + text + " is outside of 1 to " + std::to_string(1 + drafts) + ", the tokens of a round of " +
                                std::to_string(drafts) + " drafts", kParam);
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double p = (low + high) / 2;
    (sum_of_powers(p, drafts) < length - 1 ? low : high) = p;
  }
  return SyntheticAcceptance({(low + high) / 2});
}

int32_t SyntheticAcceptance::accepted(uint64_t seed, int32_t choice, int32_t position, int32_t drafts) const {
  const uint64_t round = mix(mix(seed) ^ (static_cast<uint64_t>(static_cast<uint32_t>(choice)) << 32 | static_cast<uint32_t>(position)));
  for (int32_t j = 0; j < drafts; ++j) {
    const double uniform = static_cast<double>(mix(round + static_cast<uint64_t>(j)) >> 11) * 0x1p-53;
    if (uniform >= rates_[std::min(static_cast<size_t>(j), rates_.size() - 1)]) return j;
  }
  return drafts;
}

double SyntheticAcceptance::length(int32_t drafts) const {
  double length = 1, survival = 1;
  for (int32_t j = 0; j < drafts; ++j) length += survival *= rates_[std::min(static_cast<size_t>(j), rates_.size() - 1)];
  return length;
}

}  // namespace slipstream
