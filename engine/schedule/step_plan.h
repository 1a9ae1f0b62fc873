// What runs in one step, as plain data: it can be logged, replayed and sent to another process. Built by the scheduler
// on the engine thread; read-only for the ranks. In decode and verify spans the device owns positions and lengths: the
// plan holds upper bounds only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "engine/request/request.h"

namespace slipstream {

/// Makes a slot ready for a sequence. A resumed (preempted) sequence is opened with its whole history; only the first
/// prompt_tokens ids count as prompt.
struct OpenSlot {
  int32_t slot = 0;
  uint32_t generation = 0;
  SamplingParams sampling;
  int32_t choice = 0;
  std::vector<int32_t> history;      // prompt, then tokens generated before a preemption
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;         // leading tokens whose K/V is already in the granted blocks
  int32_t remaining_tokens = 0;      // budget from here on
  int32_t emitted_tokens = 0;        // generated before a preemption (min_tokens counts them)
};
/// Appends block ids to one column of the slot's table.
struct GrantBlocks {
  int32_t slot = 0;
  int32_t group = 0;
  std::vector<int32_t> blocks;
};
/// Copies a block's K/V in every layer of a group (a partial prefix hit that is about to be written).
struct CopyBlock {
  int32_t group = 0;
  int32_t source = 0;
  int32_t target = 0;
};
struct ReleaseSlot {
  int32_t slot = 0;
  uint32_t generation = 0;
};
using SlotCommand = std::variant<OpenSlot, GrantBlocks, CopyBlock, ReleaseSlot>;

enum class SpanKind : uint8_t { kPrefill, kDecode, kVerify };
enum class LogitsWanted : uint8_t { kNone, kLast, kAll };

struct Span {
  int32_t slot = 0;
  uint32_t generation = 0;
  SpanKind kind = SpanKind::kPrefill;
  int32_t start = 0;                 // prefill: position of the first row; otherwise an upper bound
  int32_t rows = 0;                  // prefill: chunk; decode: 1; verify: 1 + at most rows - 1 drafts
  int32_t draft_rows_next = 0;       // drafts to propose after this commit
  std::vector<int32_t> supplied_drafts;  // tokens the plan brings itself; otherwise the device's drafts are verified
  LogitsWanted logits = LogitsWanted::kNone;
  bool constrained = false;          // token masks may stand beside its logit rows; the result brings its new drafts
};

/// Logit rows that a span may have: an upper bound, like its rows. Masks stand beside these.
inline int32_t logit_rows_of(const Span& span) {
  if (span.kind != SpanKind::kPrefill) return span.rows;
  return span.logits == LogitsWanted::kNone ? 0 : 1;
}

/// greedy: every row is an argmax without penalties, masks or logprobs; sampled: no masks and no logprobs.
enum class CommitVariant : uint8_t { kGreedy, kSampled, kFull };

struct StepPlan {
  uint64_t step = 0;
  std::vector<SlotCommand> commands;  // carried out in order, before the spans
  std::vector<Span> spans;            // decode and verify first, then prefill
  int32_t total_rows = 0;
  int32_t rows_class = 1;             // graph key: rows per sequence, 1, 4 or 16; 0 with prefill
  CommitVariant commit = CommitVariant::kGreedy;
};

enum class DoneReason : uint8_t { kNone, kStopId, kLength, kNonFinite };

struct SpanResult {
  int32_t slot = 0;
  uint32_t generation = 0;
  std::vector<int32_t> emitted;          // a stop id that ended the sequence is the last one
  std::vector<TokenLogprob> logprobs;    // beside emitted when asked for
  int32_t drafted = 0;                   // drafts that were verified
  int32_t accepted = 0;
  std::vector<int32_t> drafts;           // of a constrained span that ran: proposed behind it, for the next
  DoneReason done = DoneReason::kNone;
  bool non_finite = false;
  bool starved = false;                  // the slot would have passed its block capacity and did nothing
};

struct StepResult {
  uint64_t step = 0;
  std::vector<SpanResult> spans;         // in the plan's order
  uint64_t digest = 0;                   // over tokens and accepted counts; equal on every rank
  // Of this rank; 0 where the parts run on a device and are not timed apart.
  double forward_ms = 0;                 // layers
  double commit_ms = 0;                  // head, sampling or verification, slot update
  double draft_ms = 0;                   // the drafter's context and the drafts for the next step
};

/// One JSON line per plan; parse gives an equal plan. For logs and replay.
std::string to_json(const StepPlan& plan);
Result<StepPlan> plan_from_json(const std::string& line);

}  // namespace slipstream
