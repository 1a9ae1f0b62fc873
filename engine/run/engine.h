// The machine room's door: submit, cancel (through Request), state. Owns the engine thread, the scheduler, the worker
// group and the watchdog. Knows no HTTP.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/request/request.h"
#include "engine/run/step_executor.h"
#include "engine/schedule/step_plan.h"
#include "engine/spec/draft_policy.h"

namespace slipstream {

struct EngineLimits {
  int32_t max_num_seqs = 16;              // slots
  int32_t max_batched_tokens = 512;       // rows of a step
  int32_t max_queued_requests = 256;
  int64_t max_queued_tokens = 1 << 20;    // prompt tokens waiting
  int32_t context_length = 0;             // prompt + output
  int32_t vocab = 0;                      // logits width, for bounds
  int32_t block_tokens = 32;
  int32_t num_blocks = 0;                 // of each cache group
  int32_t cache_groups = 1;               // Model::cache_groups().size(); a block id means the same in every group
  bool prefix_caching = true;
  /// While others decode, a prefill chunk is cut so that a step stays under this; 0 switches the budget off.
  std::chrono::milliseconds step_budget{50};
  std::chrono::seconds watchdog{30};      // a step that takes longer ends the process with 71
  int32_t max_draft_tokens = 0;           // 0: no speculation
  DraftMode draft_mode = DraftMode::kFixed;
  int32_t max_supplied_drafts = 0;        // drafts of a step that constraints bring: tokens that are certain to come
  int32_t draft_block_tokens = 0;         // cache positions behind the newest token that a drafter writes (DFlash: its block)
};

/// Why a span got no drafts: its request wants none, its constraint foresees the next tokens, its answer is about to end, the step has no
/// rows left, the policy sees nothing in it, or the drafter had no proposal.
inline constexpr std::array<std::string_view, 6> kUndraftedReasons = {"request", "forced", "ending", "rows", "policy", "no_proposal"};
enum class Undrafted : uint8_t { kRequest, kForced, kEnding, kRows, kPolicy, kNoProposal };

/// Numbers for /metrics and /v1/info; read at any time from any thread.
struct EngineStats {
  int64_t running = 0, waiting = 0, waiting_tokens = 0;
  int64_t blocks_total = 0, blocks_used = 0, blocks_cached = 0, blocks_free = 0;
  int64_t prefix_queries_tokens = 0, prefix_hit_tokens = 0;
  int64_t preemptions = 0, steps = 0, prompt_tokens = 0, generated_tokens = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_error = 0;
  int64_t non_finite_rows = 0, invariant_failures = 0;
  int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;
  std::vector<int64_t> accepted_per_position;
  std::vector<int64_t> drafted_per_position;  // verified there
  std::vector<int64_t> draft_widths;      // decode and verify spans by drafts verified, from 0
  std::array<int64_t, kUndraftedReasons.size()> undrafted{};  // spans without drafts for the next, by kUndraftedReasons
  double draft_s = 0, verify_s = 0, commit_s = 0;  // of steps with drafts (StepResult)
  int64_t draft_probes = 0;               // DraftPolicy::probes
  int64_t masked_rows = 0;                // logit rows that got a token mask
  double mask_s = 0;                      // spent on them by the engine thread, while a forward runs
  int64_t forced_drafts = 0, forced_accepted = 0;  // tokens that constraints foresaw; not among the drafts above
  int64_t constraint_dead_ends = 0;       // choices that ended with ErrorCause::kConstraint
  double last_step_age_s = 0;             // since a step finished; 0 when idle
  double last_step_ms = 0;

  /// Mean tokens of a verified round: its accepted drafts and one more; 0 before the first.
  double acceptance_length() const {
    return drafts == 0 ? 0 : 1 + static_cast<double>(accepted_tokens) / static_cast<double>(drafts);
  }
  /// Share of the drafts verified at each position that were accepted.
  std::vector<double> acceptance_by_position() const;
};

/// Timestamps of one finished request, for histograms and the access line.
struct RequestTimes {
  double queue_s = 0, prefill_s = 0, decode_s = 0, first_token_s = 0, total_s = 0;
  int32_t preemptions = 0;
};

enum class EngineState : uint8_t { kStarting, kReady, kDraining, kDead, kStopped };

/// Called by the engine thread; must not block.
struct EngineHooks {
  std::function<void(const StepPlan&)> plan_log;              // every plan, before it is launched
  std::function<void(const StepPlan&, const StepResult&, double step_ms)> step_done;
  std::function<void(const Request&, const RequestTimes&, FinishReason)> request_done;
  std::function<void(int exit_code, const std::string& reason)> fatal;  // device 70, watchdog 71, invariant 72
};

class Engine {
 public:
  /// `ranks`: one executor per rank, each moved to its own worker thread.
  Engine(EngineLimits limits, std::vector<std::unique_ptr<StepExecutor>> ranks, EngineHooks hooks);
  ~Engine();

  void start();
  /// Any thread. kResourceExhausted when a queue bound is reached, kUnavailable when draining or dead. Counts the
  /// request at the moment of admission.
  Status submit(std::shared_ptr<Request> request);
  /// No new requests; running ones go on. Returns true once idle, false after `timeout`, having ended the rest with an
  /// error event.
  bool drain(std::chrono::milliseconds timeout);
  void stop();

  EngineState state() const;
  EngineStats stats() const;
  const EngineLimits& limits() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace slipstream
