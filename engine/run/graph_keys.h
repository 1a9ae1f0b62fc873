// Which captured graphs serve which steps, and which of them are worth capturing before the first step. Arithmetic only:
// knows no device.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

#include "engine/schedule/step_plan.h"

namespace slipstream {

/// Rows of a captured step that has `rows`: 1, 2, 4, 8, 16, 24, 32, … At most 8 rows of padding, and few graphs. The model
/// is loaded for as many.
inline int32_t padded_rows(int32_t rows) {
  if (rows <= 8) return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows)));
  return (rows + 7) / 8 * 8;
}

/// The longest context of a captured step: a power of two from 1,024 on, or the longest that is served.
inline int32_t padded_context(int32_t context, int32_t longest) {
  return std::min(std::max(1024, static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(context)))), longest);
}

/// What a captured step depends on besides addresses, which never change.
struct StepKey {
  int32_t rows = 0;         // padded
  int32_t spans = 0;        // padded
  int32_t span_rows = 0;    // most rows of a span: 1, 4, 17
  int32_t context = 0;      // padded: shapes attention's split plan
  CommitVariant commit = CommitVariant::kGreedy;
  bool drafts = false;
  auto operator<=>(const StepKey&) const = default;

  /// The parts that the forward and the commit graph depend on: what the other half alone needs is left out, so that it
  /// makes no second graph.
  StepKey of_forward() const { return {rows, spans, span_rows, context, CommitVariant::kGreedy, false}; }
  StepKey of_commit() const { return {rows, spans, span_rows, 0, commit, drafts}; }
};

struct GraphBounds {
  int32_t slots = 0;
  int32_t max_rows = 0;     // rows of the largest captured step, padded
  int32_t context = 0;      // longest, in tokens
  int32_t drafts = 0;       // per span; 0: nothing is verified
  int32_t draft_span_rows = 0;  // the span_rows class of a full draft
};

/// Keys of plain decode steps (every row count, greedy and sampled), then of those that draft for the next, of verify steps with
/// few drafts and with full ones; short contexts first, few rows first; as many as kUsualGraphs graphs of each half come of. Others are captured when their steps come.
inline constexpr size_t kUsualGraphs = 400;
std::vector<StepKey> usual_graphs(const GraphBounds& bounds);

}  // namespace slipstream
