// See draft_policy.h.
#include "engine/spec/draft_policy.h"

#include <algorithm>
#include <bit>

#include "engine/base/result.h"

namespace slipstream {
namespace {

/// Steps of like size share an average: exact up to 8 rows, then eighths of a power of two.
int32_t class_of(int32_t rows) {
  if (rows <= 8) return rows;
  const int32_t step = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(rows)) / 8);
  return (rows + step - 1) / step * step;
}

}  // namespace

void StepTimes::record(int32_t rows, double ms) {
  constexpr double kWeight = 0.1, kDrift = 0.02;
  if (rows <= 0 || ms <= 0) return;
  double& own = ms_[class_of(rows)];
  if (own <= 0) {
    own = ms;
    return;
  }
  // Contexts grow and clocks change for all sizes alike, and sizes that are not in use are not measured.
  const double drift = 1 + kDrift * std::clamp(ms / own - 1, -0.5, 0.5);
  own += kWeight * (std::min(ms, 2 * own) - own);  // a step that waited for something else says little
  for (auto& [size, other] : ms_)
    if (&other != &own) other *= drift;
}

bool StepTimes::knows(int32_t rows) const { return ms_.contains(class_of(rows)); }

double StepTimes::of(int32_t rows) const {
  if (ms_.empty()) return 1;
  const auto above = ms_.lower_bound(rows);
  if (above == ms_.begin()) return above->second;
  const auto below = std::prev(above);
  if (above != ms_.end()) {
    const double share = static_cast<double>(rows - below->first) / (above->first - below->first);
    // a larger step is no faster, whatever two noisy averages say
    return below->second + share * std::max(0.0, above->second - below->second);
  }
  if (below == ms_.begin()) return below->second;
  const auto first = ms_.begin();
  const double slope = std::max(0.0, below->second - first->second) / (below->first - first->first);
  return below->second + slope * (rows - below->first);
}

DraftPolicy::DraftPolicy(DraftMode mode, int32_t max_drafts) : mode_(mode), max_drafts_(max_drafts) {
  CHECK(max_drafts >= 0 && max_drafts < Acceptance::kPositions, "drafts of a sequence");
  everybody_.share.fill(0.5f);
}

void DraftPolicy::record_span(int32_t planned, int32_t accepted, bool ended, Acceptance* own) {
  const auto mix = [](float* average, bool taken, float weight) { *average += weight * ((taken ? 1.0f : 0.0f) - *average); };
  for (int32_t j = 0; j < std::min(planned, accepted + (ended ? 0 : 1)); ++j) {
    const auto at = static_cast<size_t>(j);
    // The first results count in full, so that a sequence soon stands for itself.
    mix(&own->share[at], j < accepted, std::max(kWeight, 1.0f / static_cast<float>(2 + own->seen[at])));
    mix(&everybody_.share[at], j < accepted, kSharedWeight);
    if (own->seen[at] < 1000) ++own->seen[at];
  }
}

const std::vector<int32_t>& DraftPolicy::choose(std::span<const Candidate> candidates, int32_t rows) {
  widths_.assign(candidates.size(), 0);
  if (mode_ == DraftMode::kOff || max_drafts_ == 0 || candidates.empty() || rows <= 0) return widths_;
  if (mode_ == DraftMode::kAdaptive) {
    choose_adaptive(candidates, rows);
  } else {
    const int32_t each = rows / static_cast<int32_t>(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) widths_[i] = std::min({each, candidates[i].most, max_drafts_});
  }
  return widths_;
}

void DraftPolicy::choose_adaptive(std::span<const Candidate> candidates, int32_t rows) {
  const auto sequences = static_cast<int32_t>(candidates.size());
  if (!times_.knows(sequences)) return;
  const auto most = [&](int32_t i) { return std::min(candidates[static_cast<size_t>(i)].most, max_drafts_); };
  const auto share = [&](int32_t i, int32_t j) { return candidates[static_cast<size_t>(i)].own->share[static_cast<size_t>(j)]; };
  heap_.clear();
  for (int32_t i = 0; i < sequences; ++i)
    if (most(i) > 0) heap_.push_back({share(i, 0), i});
  std::make_heap(heap_.begin(), heap_.end());
  // Once over, remembering the order; the prefix with the best rate counts.
  std::vector<int32_t> order;
  double tokens = sequences, best = kMargin * tokens / times_.of(sequences);
  size_t taken = 0;
  while (!heap_.empty() && static_cast<int32_t>(order.size()) < rows) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Next next = heap_.back();
    heap_.pop_back();
    tokens += next.survival;
    order.push_back(next.candidate);
    const int32_t width = ++widths_[static_cast<size_t>(next.candidate)];
    if (width < most(next.candidate)) {
      heap_.push_back({next.survival * share(next.candidate, width), next.candidate});
      std::push_heap(heap_.begin(), heap_.end());
    }
    const double rate = tokens / times_.of(sequences + static_cast<int32_t>(order.size()));
    if (rate > best) best = rate, taken = order.size();
  }
  std::ranges::fill(widths_, 0);
  for (size_t k = 0; k < taken; ++k) ++widths_[static_cast<size_t>(order[k])];
  int32_t left = rows - static_cast<int32_t>(taken);
  for (int32_t i = 0; i < sequences; ++i) {
    Acceptance& own = *candidates[static_cast<size_t>(i)].own;
    int32_t& width = widths_[static_cast<size_t>(i)];
    for (int32_t j = width; j < most(i); ++j) {
      float& average = own.share[static_cast<size_t>(j)];
      average += kFade * (0.5f - average);
    }
    const int32_t more = std::min({kProbeDrafts, most(i) - width, left});
    if (++own.steps < own.wait || more <= 0) continue;
    own.wait = width > 0 ? kProbeSteps : std::min(2 * own.wait, kMostProbeSteps);
    own.steps = 0;
    width += more;
    left -= more;
    ++probes_;
  }
}

}  // namespace slipstream
