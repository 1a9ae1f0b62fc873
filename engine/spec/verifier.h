// Decides how much of a drafted block stands. Pure; knows no slot, device or drafter.
//
// A draft is accepted iff it equals the token that the sampler drew from the row before it. Since draws depend only on
// (seed, choice, position) and the history, the emitted text is the one that plain decoding gives; for a deterministic
// proposal this is also the best acceptance that keeps the law.
#pragma once

#include <cstdint>
#include <span>

#include "engine/schedule/step_plan.h"
#include "kernels/sample.h"

namespace slipstream {

struct Verdict {
  int32_t emitted = 0;   // drawn[0 .. emitted) are the new tokens; a stop id is the last of them
  int32_t accepted = 0;  // drafts that equal an emitted token
  DoneReason done = DoneReason::kNone;
};

/// drawn has drafts.size() + 1 rows; row i was drawn after drafts [0, i). remaining >= 1 is the output budget. Rows past
/// the first disagreement are never looked at, so a non-finite row there changes nothing.
Verdict verify(std::span<const int32_t> drafts, std::span<const SampledToken> drawn,
               std::span<const int32_t> stop_ids, int32_t remaining);
/// The same where chance decides (engine/spec/synthetic_acceptance.h): the first `accepted` drafts stand, whatever was drawn,
/// and take the place of the tokens in `drawn`.
Verdict verify_synthetic(std::span<const int32_t> drafts, std::span<SampledToken> drawn, int32_t accepted,
                         std::span<const int32_t> stop_ids, int32_t remaining);

}  // namespace slipstream
