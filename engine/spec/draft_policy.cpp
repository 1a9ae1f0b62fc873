// See draft_policy.h.
#include "engine/spec/draft_policy.h"

#include <algorithm>
#include <bit>

#include "engine/base/result.h"

namespace slipstream {
namespace {

/// Steps of like size share an average: exact up to 8, then eighths of a power of two.
int32_t class_of(int32_t size) {
  if (size <= 8) return size;
  const int32_t step = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(size)) / 8);
  return (size + step - 1) / step * step;
}

}  // namespace

void StepTimes::Average::add(double value) {
  constexpr double kWeight = 0.1;
  constexpr int32_t kFirst = 3;  // the first steps of a size also load kernels or capture graphs: the fastest counts
  ms = samples == 0 ? value : samples < kFirst ? std::min(ms, value) : ms + kWeight * (value - ms);
  if (samples < kFirst) ++samples;
}

void StepTimes::record(int32_t sequences, int32_t rows, double ms) {
  if (sequences <= 0 || rows < sequences || ms <= 0) return;
  Average& own = rows == sequences ? plain_[class_of(sequences)] : drafted_[class_of(rows)];
  const double before = own.ms;
  if (own.samples > 0) ms = std::min(ms, 2 * before);  // a step that waited for something else says little
  own.add(ms);
  if (before > 0) drift(own.ms / before, &own);
}

/// Contexts grow and clocks change for all sizes alike, and sizes that are not in use are not measured.
void StepTimes::drift(double change, const Average* measured) {
  constexpr double kShare = 0.2;
  const double all = 1 + kShare * (change - 1);
  for (auto* table : {&plain_, &drafted_})
    for (auto& [size, average] : *table)
      if (&average != measured) average.ms *= all;
}

bool StepTimes::knows(int32_t sequences) const { return plain_.contains(class_of(sequences)); }

double StepTimes::of(int32_t sequences, int32_t rows) const {
  const double plain = plain_.at(class_of(sequences)).ms;
  rows = class_of(rows);
  if (rows <= sequences) return plain;
  int32_t below = sequences;
  double below_ms = plain;
  for (auto at = drafted_.upper_bound(sequences); at != drafted_.end(); ++at) {
    const double ms = std::max(below_ms, at->second.ms);  // a larger step is no faster, whatever two noisy averages say
    if (at->first >= rows) return below_ms + (ms - below_ms) * (rows - below) / (at->first - below);
    below = at->first;
    below_ms = ms;
  }
  return below == sequences ? plain : plain + (below_ms - plain) * (rows - sequences) / (below - sequences);
}

DraftPolicy::DraftPolicy(DraftMode mode, int32_t max_drafts) : mode_(mode), max_drafts_(max_drafts) {
  CHECK(max_drafts >= 0 && max_drafts < Acceptance::kPositions, "drafts of a sequence");
  everybody_.share.fill(0.5f);
}

void DraftPolicy::record_span(int32_t planned, int32_t accepted, bool ended, Acceptance* own) {
  const auto mix = [](float* average, bool taken, float weight) { *average += weight * ((taken ? 1.0f : 0.0f) - *average); };
  for (int32_t j = 0; j < std::min(planned, accepted + (ended ? 0 : 1)); ++j) {
    const auto at = static_cast<size_t>(j);
    // The first results weigh most, so that a sequence soon stands for itself; they alone count for others, so that long
    // predictable texts do not speak for new ones.
    mix(&own->share[at], j < accepted, std::max(kWeight, 1.0f / static_cast<float>(2 + own->seen[at])));
    if (own->seen[at] < kSharedResults) mix(&everybody_.share[at], j < accepted, kSharedWeight);
    if (own->seen[at] < 1000) ++own->seen[at];
  }
}

const std::vector<int32_t>& DraftPolicy::choose(std::span<const Candidate> candidates, int32_t rows) {
  widths_.assign(candidates.size(), 0);
  if (max_drafts_ == 0 || candidates.empty() || rows <= 0) return widths_;
  if (mode_ == DraftMode::kAdaptive) {
    choose_adaptive(candidates, rows);
  } else {
    const int32_t each = rows / static_cast<int32_t>(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) widths_[i] = std::min({each, candidates[i].most, max_drafts_});
  }
  return widths_;
}

void DraftPolicy::fill(std::span<const Candidate> candidates, int32_t rows) {
  const auto sequences = static_cast<int32_t>(candidates.size());
  const auto most = [&](int32_t i) {
    const Candidate& c = candidates[static_cast<size_t>(i)];
    return std::min({c.most, max_drafts_, c.own->seen[0] == 0 ? kNewDrafts : max_drafts_});
  };
  const auto share = [&](int32_t i, int32_t j) { return candidates[static_cast<size_t>(i)].own->share[static_cast<size_t>(j)]; };
  heap_.clear();
  order_.clear();
  for (int32_t i = 0; i < sequences; ++i)
    if (most(i) > 0) heap_.push_back({share(i, 0), i});
  std::make_heap(heap_.begin(), heap_.end());
  double tokens = sequences, best = kMargin * tokens / times_.of(sequences, sequences);
  size_t taken = 0;
  while (!heap_.empty() && static_cast<int32_t>(order_.size()) < rows) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Next next = heap_.back();
    heap_.pop_back();
    tokens += next.survival;
    order_.push_back(next.candidate);
    const int32_t width = ++widths_[static_cast<size_t>(next.candidate)];
    if (width < most(next.candidate)) {
      heap_.push_back({next.survival * share(next.candidate, width), next.candidate});
      std::push_heap(heap_.begin(), heap_.end());
    }
    const double rate = tokens / times_.of(sequences, sequences + static_cast<int32_t>(order_.size()));
    if (rate > best) best = rate, taken = order_.size();
  }
  std::ranges::fill(widths_, 0);
  for (size_t k = 0; k < taken; ++k) ++widths_[static_cast<size_t>(order_[k])];
}

void DraftPolicy::choose_adaptive(std::span<const Candidate> candidates, int32_t rows) {
  const auto sequences = static_cast<int32_t>(candidates.size());
  if (!times_.knows(sequences) || since_plain_ >= kPlainSteps) {
    since_plain_ = 0;
    return;
  }
  fill(candidates, rows);
  int32_t left = rows;
  for (const int32_t width : widths_) left -= width;
  for (size_t i = 0; i < candidates.size(); ++i) {
    Acceptance& own = *candidates[i].own;
    int32_t& width = widths_[i];
    for (int32_t j = width; j < max_drafts_; ++j) {
      float& average = own.share[static_cast<size_t>(j)];
      average += kFade * (0.5f - average);
    }
    const int32_t more = std::min({kProbeDrafts, std::min(candidates[i].most, max_drafts_) - width, left});
    if (++own.steps < own.wait || more <= 0) continue;
    own.wait = width > 0 ? kProbeSteps : std::min(2 * own.wait, kMostProbeSteps);
    own.steps = 0;
    width += more;
    left -= more;
    ++probes_;
  }
  since_plain_ = left < rows ? since_plain_ + 1 : 0;
}

}  // namespace slipstream
