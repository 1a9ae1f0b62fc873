// The way back from the engine to one HTTP handler. Bounded; the engine thread writes and never blocks: a full channel
// marks itself overflowed and the engine cancels the request. One reader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace slipstream {

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };
/// Why a choice ended with kError: something broke, its own deadline passed, the engine was told to stop, or its constraint
/// allows no token at all.
enum class ErrorCause : uint8_t { kFault, kDeadline, kShutdown, kConstraint };

struct TokenLogprob {
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;  // (id, logprob), best first
};

/// Tokens of one choice from one step, or its end.
struct OutputEvent {
  int32_t choice = 0;
  std::vector<int32_t> tokens;            // without the stop id that ended the choice
  std::vector<TokenLogprob> logprobs;     // one per token when asked for, otherwise empty
  FinishReason finish = FinishReason::kNone;
  int32_t stop_id = -1;                   // the stop id that ended it, or -1
  std::string error;                      // fixed text when finish == kError
  ErrorCause cause = ErrorCause::kFault;  // meaningful when finish == kError
  int32_t cached_tokens = 0;              // prompt tokens served by the prefix cache (first event of choice 0)
  int32_t accepted_draft_tokens = 0, rejected_draft_tokens = 0;
};

class OutputChannel {
 public:
  explicit OutputChannel(size_t capacity_events);

  /// Engine thread. False when full: the event is dropped and overflowed() stays true.
  bool push(OutputEvent event);
  /// Reader. Waits until an event is there or `timeout` passes; empty on timeout.
  std::optional<OutputEvent> pop(std::chrono::milliseconds timeout);
  /// Everything that is there now, in order.
  std::vector<OutputEvent> drain();
  bool overflowed() const;

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<OutputEvent> events_;
  bool overflowed_ = false;
};

}  // namespace slipstream
