// Decides what runs in each step. Owns the sequences, their slots and blocks; turns them into StepPlans and takes
// StepResults back. Engine thread only. Knows no device, thread or HTTP.
//
// The order (engine/README.md): plan n+1 is built from results <= n-1 and launched before result n is applied, so at
// most two plans are unread at any time. A slot or block is given out again only when the last plan whose spans name it
// has been read back.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_cache.h"
#include "engine/request/sequence.h"
#include "engine/run/engine.h"
#include "engine/run/step_executor.h"
#include "engine/schedule/chunk_budget.h"
#include "engine/schedule/step_plan.h"
#include "engine/spec/draft_policy.h"

namespace slipstream {

struct SchedulerHooks {
  /// The first choice of a request got a slot, or all ended before: it no longer counts as queued.
  std::function<void(const Request&)> left_queue;
  std::function<void(const Request&, const RequestTimes&, FinishReason)> request_done;
};

class Scheduler {
 public:
  /// Borrows the clock.
  Scheduler(const EngineLimits& limits, const Clock* clock, SchedulerHooks hooks);

  /// Takes a request that check_request accepted.
  void add(std::shared_ptr<Request> request);
  /// The next plan; empty when nothing can run now. Ends cancelled and expired sequences first.
  std::optional<StepPlan> build();
  /// Token masks of the newest plan's rows. After every result before it has been applied and before its commit is launched:
  /// what has been confirmed then is what its rows continue. Ends choices that no token can continue.
  StepMasks masks(const StepPlan& plan);
  /// Results come in plan order. step_ms is the device's busy time.
  void apply(const StepResult& result, double step_ms);
  /// Ends every sequence with an error event.
  void end_all(ErrorCause cause, const std::string& text);

  bool has_sequences() const { return !live_.empty(); }
  /// Nothing lives and every plan has been read back: all blocks must be free or cached.
  bool idle() const { return live_.empty() && in_flight_.empty(); }
  /// BlockPool's identity, and at idle that no block is referenced and every slot is free.
  bool check(std::string* what) const;
  /// Fills the fields that the scheduler knows.
  void fill(EngineStats* stats) const;

 private:
  struct PlannedSpan {
    std::shared_ptr<Sequence> sequence;
    SpanKind kind = SpanKind::kPrefill;
    uint32_t generation = 0;
    int32_t end = 0;           // prefill: tokens in the cache after this chunk
    int32_t rows = 0;
    int32_t max_emitted = 0;   // what was added to in_flight_max and in_flight_min
    int32_t min_emitted = 0;
    bool supplied = false;     // verifies drafts that the plan brought
    int32_t lawful_rows = std::numeric_limits<int32_t>::max();  // what rows from this one on draw does not count
  };
  struct InFlight {
    uint64_t step = 0;
    int32_t decode_rows = 0;
    int32_t prefill_rows = 0;
    std::vector<PlannedSpan> spans;
  };
  struct Quarantined {
    const Sequence* owner = nullptr;  // compared only
    uint64_t last_step = 0;  // reusable once this has been read
    int32_t slot = 0;
    std::vector<int32_t> blocks;
  };
  /// How many of a request's choices are still alive, and what it will report.
  struct Family {
    std::shared_ptr<Request> request;
    int32_t alive = 0;
    bool queued = true;
    std::shared_ptr<Sequence> first;  // choice 0, whose prefill the others wait for
    FinishReason reason = FinishReason::kNone;
    Clock::TimePoint first_scheduled{}, first_token{};
    int32_t preemptions = 0;
  };
  enum class Room { kGranted, kLater, kPreempted };

  // ---- building (scheduler.cpp) ----
  void sweep();
  void plan_decodes(StepPlan* plan, InFlight* flight);
  void plan_prefills(StepPlan* plan, InFlight* flight);
  bool admit(const std::shared_ptr<Sequence>& sequence, StepPlan* plan);
  void plan_chunk(const std::shared_ptr<Sequence>& sequence, int32_t rows, StepPlan* plan, InFlight* flight);
  void plan_decode(const std::shared_ptr<Sequence>& sequence, int32_t rows, int32_t width, std::vector<int32_t> supplied,
                   StepPlan* plan, InFlight* flight);
  void finish_plan(StepPlan* plan, const InFlight& flight) const;
  /// Blocks for `tokens` tokens, preempting the newest others if need be.
  Room make_room(Sequence& sequence, int32_t tokens, StepPlan* plan);
  void grant(const Sequence& sequence, const std::vector<int32_t>& blocks, StepPlan* plan) const;
  void preempt(Sequence& sequence);
  /// Drafts that sequences of a step may have, all together.
  int32_t draft_rows(int32_t decoding) const;
  /// A span that asks for no drafts; most: what the sequence could have had, rows: what all could; forced: its constraint drafts.
  void count_undrafted(const Sequence& sequence, int32_t most, int32_t rows, bool forced);
  std::vector<std::shared_ptr<Sequence>> ordered(bool (*wanted)(const Sequence&)) const;
  bool may_start(const Sequence& sequence) const;

  // ---- constraints (scheduler_masks.cpp) ----
  /// Tokens that are certain to follow what the plan in flight emits: at most `most`, of which `more` says that others follow.
  std::vector<int32_t> forced_drafts(Sequence& sequence, int32_t most, bool* more) const;
  void mask_span(const Span& span, PlannedSpan* planned, std::span<std::vector<uint32_t>> rows);
  /// Of a span's tokens those that stand, and whether the choice is over with them: finish kStop or kError, otherwise kNone.
  struct Confirmed {
    size_t tokens = 0;
    FinishReason finish = FinishReason::kNone;
  };
  Confirmed confirm(Sequence& sequence, const PlannedSpan& planned, const SpanResult& result) const;
  static OutputEvent dead_end(const Sequence& sequence);

  // ---- giving back ----
  /// Slot and blocks leave the sequence; they are reusable after its last plan has been read.
  void let_go(Sequence& sequence);
  void free_quarantined();

  // ---- results (scheduler_results.cpp) ----
  void count_draft_times(const StepResult& result);
  void apply_span(const PlannedSpan& planned, const SpanResult& result);
  void publish_blocks(Sequence& sequence);
  void forget_blocks(Sequence& sequence);
  void end(const std::shared_ptr<Sequence>& sequence, OutputEvent event);
  void send(const std::shared_ptr<Sequence>& sequence, OutputEvent event);
  Family& family_of(const Sequence& sequence);
  void close_family(const Sequence& sequence, FinishReason reason);

  const EngineLimits limits_;
  const Clock* const clock_;
  const SchedulerHooks hooks_;
  BlockPool pool_;
  PrefixCache prefix_;
  ChunkBudget chunk_budget_;
  DraftPolicy policy_;

  std::vector<std::shared_ptr<Sequence>> live_;  // every sequence that has not ended
  std::vector<std::unique_ptr<Family>> families_;
  std::vector<int32_t> free_slots_;              // descending, so that the lowest is at the back
  std::vector<uint32_t> generations_;            // [slots]
  std::deque<Quarantined> quarantine_;
  int32_t quarantined_blocks_ = 0;               // of them, those that will become available
  std::vector<SlotCommand> pending_releases_;
  std::vector<DraftPolicy::Candidate> candidates_;  // of the plan in hand
  std::deque<InFlight> in_flight_;
  uint64_t next_step_ = 1;
  uint64_t last_read_ = 0;
  uint64_t next_arrival_ = 0;
  EngineStats counters_;
};

/// What submit refuses, with the numbers: bounds of ids and lengths, and a request that could never fit the cache.
Status check_request(const Request& request, const EngineLimits& limits);

}  // namespace slipstream
