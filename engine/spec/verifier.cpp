#include "engine/spec/verifier.h"

#include <algorithm>

namespace slipstream {
namespace {

/// agrees(row): whether draft `row` stands.
template <typename Agrees>
Verdict emit(std::span<const SampledToken> drawn, std::span<const int32_t> stop_ids, int32_t remaining, Agrees agrees) {
  Verdict verdict;
  for (size_t row = 0; row < drawn.size(); ++row) {
    const SampledToken& token = drawn[row];
    if (token.non_finite || token.token < 0) {
      verdict.done = DoneReason::kNonFinite;
      return verdict;
    }
    ++verdict.emitted;
    if (agrees(row)) ++verdict.accepted;
    if (std::ranges::find(stop_ids, token.token) != stop_ids.end()) {
      verdict.done = DoneReason::kStopId;
      return verdict;
    }
    if (verdict.emitted >= remaining) {
      verdict.done = DoneReason::kLength;
      return verdict;
    }
    if (!agrees(row)) return verdict;
  }
  return verdict;
}

}  // namespace

Verdict verify(std::span<const int32_t> drafts, std::span<const SampledToken> drawn,
               std::span<const int32_t> stop_ids, int32_t remaining) {
  return emit(drawn, stop_ids, remaining, [&](size_t row) { return row < drafts.size() && drafts[row] == drawn[row].token; });
}

Verdict verify_synthetic(std::span<const int32_t> drafts, std::span<SampledToken> drawn, int32_t accepted,
                         std::span<const int32_t> stop_ids, int32_t remaining) {
  const size_t stand = std::min(static_cast<size_t>(accepted), drafts.size());
  for (size_t row = 0; row < std::min(stand, drawn.size()); ++row)
    if (!drawn[row].non_finite) drawn[row].token = drafts[row];
  return emit(drawn, stop_ids, remaining, [&](size_t row) { return row < stand; });
}

}  // namespace slipstream
