// Proposes tokens; never touches committed state. Deterministic, so that the seed contract holds (design: a draft is
// accepted iff it equals the token that the sampler draws).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace slipstream {

class KvViews;
struct Taps;

struct DraftRequest {
  int32_t slot = 0;
  std::span<const int32_t> history;  // prompt and committed tokens, the last one not yet in the cache
  int32_t max_tokens = 0;            // at most this many proposals
  const int32_t* const* block_tables = nullptr;  // of the sequence, as in SpanRows
  int32_t blocks = 0;
};

/// What became of a step, for drafters with a context: its rows whose tokens stand. Prompt rows all do; of a verify span the
/// anchor and the accepted drafts. Borrowed.
struct StandingRows {
  struct Span {
    int32_t slot = 0;
    uint32_t generation = 0;
    bool drafts_due = false;          // propose is about to ask for this slot
  };
  StepInputs step;                    // positions and spans of these rows alone; no token ids
  std::span<const int32_t> rows;      // [step.rows]: where each stood in the forward, ascending
  std::span<const Span> spans;        // beside step.spans
};

/// One per rank, worker thread only.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::string name() const = 0;
  /// For drafters with a context of their own, which follows the target's hidden states; the others need none of the three.
  /// attach: the cache that holds it, once, before the first step.
  virtual void attach(const KvViews& kv) { (void)kv; }
  /// What every forward is to leave for `observe`; null: nothing. Valid until the next forward.
  virtual Taps* taps() { return nullptr; }
  /// After each commit and before propose, whether or not drafts are wanted, so that no context has a hole.
  virtual void observe(const StandingRows& standing) { (void)standing; }

  /// drafts[i] holds at most requests[i].max_tokens ids.
  virtual void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) = 0;
};

}  // namespace slipstream
