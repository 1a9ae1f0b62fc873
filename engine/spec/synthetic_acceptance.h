// Acceptance made up for benchmarks: how many drafts of a span stand is drawn from given rates, after the drafter, the
// target and the sampler did all their work, so that speed can be measured at a chosen acceptance length without trained
// weights. The text means nothing then. Pure; knows no slot and no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace slipstream {

class SyntheticAcceptance {
 public:
  /// "3.5": the mean tokens of a round at full width, by one rate p for every draft whose predecessors stood: p + p^2 + … +
  /// p^drafts = length - 1. "0.9,0.8,0.5": such a rate for each draft, the last one for all behind it. Narrower rounds are cut
  /// off. kInvalidArgument says what is possible.
  static Result<SyntheticAcceptance> parse(const std::string& text, int32_t drafts);

  /// Drafts that stand of the first `drafts` of a round; a function of these numbers alone.
  int32_t accepted(uint64_t seed, int32_t choice, int32_t position, int32_t drafts) const;
  /// Mean tokens of a round of `drafts` drafts.
  double length(int32_t drafts) const;
  /// Of each draft, given that its predecessors stood.
  const std::vector<double>& rates() const { return rates_; }

 private:
  explicit SyntheticAcceptance(std::vector<double> rates) : rates_(std::move(rates)) {}
  std::vector<double> rates_;
};

}  // namespace slipstream
