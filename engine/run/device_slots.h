// The per-slot state that a rank's device owns: history, lengths, drafts, budgets, block tables. Carries out a plan's
// commands, turns its spans into rows, and settles what was drawn. One per rank, worker thread only. Knows no model and
// no bytes; shared by ModelExecutor and FakeExecutor, so both make the same decisions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/step_executor.h"
#include "engine/schedule/step_plan.h"
#include "engine/spec/drafter.h"
#include "engine/spec/synthetic_acceptance.h"
#include "kernels/ops.h"

namespace slipstream {

struct DeviceShape {
  int32_t slots = 16;
  int32_t groups = 1;          // cache groups: columns of a block table
  int32_t block_tokens = 32;
  int32_t max_rows = 512;      // rows of the largest step
  int32_t max_draft_tokens = 0;
  int32_t max_supplied_drafts = 0;  // drafts of a step that its plan brings
  std::optional<SyntheticAcceptance> synthetic = {};  // benchmarks: chance decides about drafts
  /// Rows with logits in the largest step.
  int32_t max_logit_rows() const { return slots + std::max(slots * max_draft_tokens, max_supplied_drafts); }
};

/// What ranks compare: tokens, accepted counts, reported drafts and ends of every span.
uint64_t digest_of(const StepResult& result);
/// As a StepResult carries them.
std::vector<TokenLogprob> logprobs_of(std::span<const SampledToken> drawn);

class DeviceSlots {
 public:
  explicit DeviceSlots(const DeviceShape& shape);

  // A plan that the slots cannot honour throws DeviceError: it ends the engine, not the process's memory.
  void open(const OpenSlot& command);
  void grant(const GrantBlocks& command);
  void release(const ReleaseSlot& command);

  /// What one span of the plan became.
  struct Placed {
    bool runs = false;
    bool starved = false;
    int32_t first_row = 0;
    int32_t rows = 0;
    int32_t drafts = 0;       // of the rows, the last `drafts` hold drafts
    int32_t first_logit = 0;  // index into logit_rows
    int32_t logits = 0;
  };
  /// Lays out the rows of the spans that run (a done, stale or starved slot gives none). `starve` may force a decode
  /// span to starve (tests). The result is valid until the next place.
  const StepInputs& place(const StepPlan& plan, const std::function<bool()>& starve = {});
  std::span<const Placed> placed() const { return placed_; }

  /// One law per logit row, each with its own history: drafts of earlier rows count as output.
  std::span<const SampleRow> sample_rows(const StepPlan& plan, const StepMasks& masks);

  /// Verifies, emits, updates the slots. drawn stands beside logit_rows.
  StepResult settle(const StepPlan& plan, std::span<const SampledToken> drawn);

  /// After settle of the same plan: its rows that stand; none of a sequence that is not finite. Valid until the next place.
  const StandingRows& standing(const StepPlan& plan, const StepResult& result);

  /// After settle: who wants drafts. propose into drafts(), then keep_drafts().
  std::span<const DraftRequest> draft_requests() const { return draft_requests_; }
  void keep_drafts(std::span<const std::vector<int32_t>> drafts);
  /// After all of these: the drafts of constrained spans that ran go into the result and its digest.
  void report_drafts(const StepPlan& plan, StepResult* result) const;

  /// All tokens of the slot, drafts of the placed step included.
  std::span<const int32_t> history(int32_t slot) const { return slots_[static_cast<size_t>(slot)].history; }
  const std::vector<int32_t>& table(int32_t slot, int32_t group) const {
    return slots_[static_cast<size_t>(slot)].tables[static_cast<size_t>(group)];
  }
  const SamplingParams& sampling(int32_t slot) const { return slots_[static_cast<size_t>(slot)].sampling; }

 private:
  struct Slot {
    bool open = false;
    bool done = false;
    uint32_t generation = 0;
    int32_t choice = 0;
    int32_t prompt_tokens = 0;
    int32_t committed = 0;   // tokens of history that stand
    int32_t cached = 0;      // of them, those whose K/V is written; decode: committed - 1
    int32_t emitted = 0;     // output tokens, those before a preemption included
    int32_t remaining = 0;   // output budget
    SamplingParams sampling;
    std::vector<int32_t> history;
    std::vector<int32_t> drafts;                  // proposed after the last commit
    std::vector<std::vector<int32_t>> tables;     // [groups]
    std::vector<const int32_t*> table_addresses;  // [groups]
  };

  Slot& slot_of(int32_t slot);
  void place_prefill(const Span& span, Slot& slot, Placed* placed);
  void place_decode(const Span& span, Slot& slot, const std::function<bool()>& starve, Placed* placed);
  void add_rows(Slot& slot, int32_t start, Placed* placed);
  SpanResult settle_span(const Span& span, const Placed& placed, std::span<const SampledToken> drawn);
  int32_t capacity(const Slot& slot) const;

  const DeviceShape shape_;
  std::vector<Slot> slots_;
  // Arrays of the placed step, allocated once for the largest step.
  std::vector<int32_t> token_ids_, positions_, logit_rows_;
  std::vector<SpanRows> spans_;
  std::vector<Placed> placed_;      // beside plan.spans
  std::vector<SampleRow> sample_rows_;
  std::vector<SampledToken> made_up_;  // of one span, in benchmarks
  std::vector<DraftRequest> draft_requests_;
  StepInputs inputs_;
  std::vector<int32_t> standing_rows_, standing_positions_;
  std::vector<SpanRows> standing_spans_;
  std::vector<StandingRows::Span> standing_owners_;
  StandingRows standing_;
};

}  // namespace slipstream
