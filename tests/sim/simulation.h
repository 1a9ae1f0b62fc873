// The whole engine in one thread on simulated time: scheduler, loop and fake device, with requests, cancels and faults
// drawn from one seed. Every failure replays from its seed.
#pragma once

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/run/fake_executor.h"
#include "engine/run/step_loop.h"
#include "kernels/ops.h"

namespace slipstream::sim {

/// A number from the environment: how many seeds a long run takes, and from which on.
inline int64_t environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// The device queue without a thread: launches are kept and carried out, in order, when a result is asked for.
class InlineRanks final : public StepRanks {
 public:
  InlineRanks(StepExecutor* executor, SimulatedClock* clock) : executor_(executor), clock_(clock) {}

  void launch_forward(std::shared_ptr<const StepPlan> plan) override { queue_.push_back({false, std::move(plan), {}}); }
  void launch_commit(std::shared_ptr<const StepPlan> plan, StepMasks masks) override {
    queue_.push_back({true, std::move(plan), std::move(masks)});
  }
  Outcome wait_result() override {
    const auto start = clock_->now();
    while (!queue_.empty()) {
      const auto [commit, plan, masks] = std::move(queue_.front());
      queue_.pop_front();
      try {
        if (!commit) {
          executor_->forward(*plan);
          continue;
        }
        Outcome outcome;
        outcome.result = executor_->commit(*plan, masks);
        outcome.busy_ms = std::chrono::duration<double, std::milli>(clock_->now() - start).count();
        return outcome;
      } catch (const DeviceError& error) {
        throw EngineFault(FaultCode::kDevice, error.what());
      }
    }
    throw EngineFault(FaultCode::kInvariant, "a result was asked for that nobody computes");
  }

 private:
  struct Launch {
    bool commit;
    std::shared_ptr<const StepPlan> plan;
    StepMasks masks;
  };
  StepExecutor* const executor_;
  SimulatedClock* const clock_;
  std::deque<Launch> queue_;
};

/// What one choice received.
struct Received {
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kNone;
  int32_t stop_id = -1;
  std::string error;
  int32_t ends = 0;
  int32_t late_events = 0;  // after the end
  size_t logprobs = 0;
};

/// Reads a channel's events into per-choice records.
inline void receive(OutputChannel& channel, std::vector<Received>* choices) {
  for (OutputEvent& event : channel.drain()) {
    Received& got = (*choices)[static_cast<size_t>(event.choice)];
    if (got.ends > 0) ++got.late_events;
    got.tokens.insert(got.tokens.end(), event.tokens.begin(), event.tokens.end());
    got.logprobs += event.logprobs.size();
    if (event.finish == FinishReason::kNone) continue;
    ++got.ends;
    got.finish = event.finish;
    got.stop_id = event.stop_id;
    got.error = event.error;
  }
}

/// What plain generation gives, computed without any of the engine: token by token from the law.
struct Expected {
  std::vector<int32_t> tokens;  // without the stop id
  FinishReason finish = FinishReason::kLength;
  int32_t stop_id = -1;
};
inline Expected expected_text(const TokenLaw& law, const Request& request, int32_t choice) {
  Expected expected;
  std::vector<int32_t> history = request.prompt;
  for (int32_t i = 0; i < request.sampling.max_tokens; ++i) {
    const int32_t token = law(history, request.sampling.seed, choice);
    for (int32_t stop : request.sampling.stop_ids)
      if (token == stop) {
        expected.finish = FinishReason::kStop;
        expected.stop_id = token;
        return expected;
      }
    expected.tokens.push_back(token);
    history.push_back(token);
  }
  return expected;
}

inline bool is_prefix(const std::vector<int32_t>& part, const std::vector<int32_t>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace slipstream::sim
