#include "engine/spec/verifier.h"

#include <algorithm>

namespace slipstream {

Verdict verify(std::span<const int32_t> drafts, std::span<const SampledToken> drawn,
               std::span<const int32_t> stop_ids, int32_t remaining) {
  Verdict verdict;
  for (size_t row = 0; row < drawn.size(); ++row) {
    const SampledToken& token = drawn[row];
    if (token.non_finite || token.token < 0) {
      verdict.done = DoneReason::kNonFinite;
      return verdict;
    }
    ++verdict.emitted;
    const bool agrees = row < drafts.size() && drafts[row] == token.token;
    if (agrees) ++verdict.accepted;
    if (std::ranges::find(stop_ids, token.token) != stop_ids.end()) {
      verdict.done = DoneReason::kStopId;
      return verdict;
    }
    if (verdict.emitted >= remaining) {
      verdict.done = DoneReason::kLength;
      return verdict;
    }
    if (!agrees) return verdict;
  }
  return verdict;
}

}  // namespace slipstream
