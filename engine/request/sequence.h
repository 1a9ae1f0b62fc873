// One choice of a request inside the engine: its tokens, its blocks and where it stands. Owned by the scheduler, engine
// thread only; only the scheduler moves it. Knows no device and no HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/cache/block_table.h"
#include "engine/request/request.h"
#include "engine/sample/token_constraint.h"
#include "engine/spec/draft_policy.h"

namespace slipstream {

enum class SequenceState : uint8_t { kWaiting, kPrefilling, kRunning, kPreempted, kFinished };

/// The table of allowed moves; everything else is our own mistake.
bool move_allowed(SequenceState from, SequenceState to);
const char* state_name(SequenceState state);

class Sequence {
 public:
  Sequence(std::shared_ptr<Request> from, int32_t choice_index, uint64_t arrival_ticket);

  SequenceState state() const { return state_; }
  /// CHECK fails when the table does not allow it.
  void move(SequenceState to);

  bool active() const { return state_ == SequenceState::kPrefilling || state_ == SequenceState::kRunning; }
  bool finished() const { return state_ == SequenceState::kFinished; }
  bool waits() const { return state_ == SequenceState::kWaiting || state_ == SequenceState::kPreempted; }

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  int32_t emitted() const { return length() - prompt_tokens; }
  /// Prompt and whole budget: no position at or past it is ever needed.
  int32_t total_limit() const { return prompt_tokens + request->sampling.max_tokens; }
  /// Runs before `other`: lower priority value, then earlier arrival, then lower choice.
  bool before(const Sequence& other) const;

  const std::shared_ptr<Request> request;
  const int32_t choice;
  const uint64_t arrival;           // order of admission
  const int32_t prompt_tokens;

  // ---- confirmed: read back from results ----
  std::vector<int32_t> tokens;      // prompt, then generated
  int32_t cached_prompt_tokens = 0; // prefix hit of the first opening
  bool prefilled_once = false;      // its prompt has been computed and read back at least once
  bool announced = false;           // the first event has been sent
  std::unique_ptr<TokenConstraint> constraint;  // stands behind `tokens`; null: none, or not started
  std::vector<int32_t> drafts;      // constrained: what the device holds, to be verified next

  // ---- planned: what plans that may still be in flight will do ----
  int32_t slot = -1;
  uint32_t generation = 0;
  int32_t planned = 0;              // tokens of `tokens` that are cached or in a planned chunk
  int32_t computed = 0;             // tokens whose K/V is known to be in the cache
  int32_t in_flight_max = 0;        // most tokens that unread plans may emit
  int32_t in_flight_min = 0;        // tokens that they emit for sure, unless the sequence ends or starves
  int32_t drafts_due = 0;           // drafts that the last plan asked the device to propose
  int32_t planned_rows = 0;         // of the last decode or verify span
  std::vector<int32_t> supplied;    // drafts that it brought itself
  Acceptance acceptance;            // of its drafts
  uint64_t last_step = 0;           // last plan that names it

  // ---- cache ----
  BlockTable blocks;
  std::string salt;                 // prefix cache partition
  std::vector<uint64_t> published;  // ids of its leading blocks in the prefix cache

  // ---- for RequestTimes ----
  Clock::TimePoint first_scheduled{};
  Clock::TimePoint first_token{};
  int32_t preemptions = 0;

 private:
  SequenceState state_ = SequenceState::kWaiting;
};

}  // namespace slipstream
