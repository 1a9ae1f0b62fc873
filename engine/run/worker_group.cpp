#include "engine/run/worker_group.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <new>
#include <thread>

#include "kernels/ops.h"

namespace slipstream {

WorkerGroup::WorkerGroup(std::vector<std::unique_ptr<StepExecutor>> ranks) {
  CHECK(!ranks.empty(), "a worker group has at least one rank");
  for (auto& executor : ranks) {
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->executor = std::move(executor);
  }
  for (auto& rank : ranks_) rank->thread = std::thread([this, one = rank.get()] { rank_loop(one); });
}

WorkerGroup::~WorkerGroup() {
  for (auto& rank : ranks_) rank->commands.close();
  // A rank that waits for a peer would never come back to its queue.
  if (ranks_.size() > 1) abort(FaultCode::kDevice, "the engine stops");
  for (auto& rank : ranks_) rank->thread.join();
}

void WorkerGroup::rank_loop(Rank* rank) {
  std::deque<std::chrono::steady_clock::time_point> running;  // launched commits: when their forward was launched
  std::chrono::steady_clock::time_point forward_start, taken;
  try {
    while (true) {
      if (!running.empty() && rank->executor->result_ready()) {
        Outcome outcome;
        outcome.result = rank->executor->take_result();
        const auto now = std::chrono::steady_clock::now();
        // a device that runs on began this step when it had ended the one before
        outcome.busy_ms = std::chrono::duration<double, std::milli>(now - std::max(running.front(), taken)).count();
        taken = now;
        running.pop_front();
        std::lock_guard lock(mutex_);
        rank->results.push_back(std::move(outcome));
        arrived_.notify_all();
        continue;
      }
      // While a device runs, the next launch or its result: whichever comes first.
      auto command = running.empty() ? rank->commands.pop() : rank->commands.try_pop();
      if (!command) {
        if (running.empty() || rank->commands.closed()) return;
        std::this_thread::yield();
        continue;
      }
      if (command->commit) {
        rank->executor->launch_commit(*command->plan, *command->masks);
        running.push_back(forward_start);
      } else {
        forward_start = std::chrono::steady_clock::now();
        rank->executor->forward(*command->plan);
      }
    }
  } catch (const DeviceError& error) {
    abort(FaultCode::kDevice, error.what());
  } catch (const std::bad_alloc&) {
    abort(FaultCode::kDevice, "host memory is exhausted in a step");
  } catch (const std::exception& error) {
    abort(FaultCode::kInvariant, std::string("a step failed: ") + error.what());
  }
}

void WorkerGroup::send(const WorkerCommand& command) {
  for (auto& rank : ranks_) rank->commands.push(command);
}

void WorkerGroup::launch_forward(std::shared_ptr<const StepPlan> plan) { send({false, std::move(plan), nullptr}); }

void WorkerGroup::launch_commit(std::shared_ptr<const StepPlan> plan, StepMasks masks) {
  send({true, std::move(plan), std::make_shared<const StepMasks>(std::move(masks))});
}

StepRanks::Outcome WorkerGroup::wait_result() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] {
    return fault_.has_value() || std::ranges::all_of(ranks_, [](const auto& rank) { return !rank->results.empty(); });
  });
  if (fault_) throw EngineFault(fault_->code, fault_->reason);
  Outcome outcome = std::move(ranks_[0]->results.front());
  for (auto& rank : ranks_) {
    if (rank != ranks_[0]) {
      const Outcome& other = rank->results.front();
      if (other.result.digest != outcome.result.digest || other.result.step != outcome.result.step)
        throw EngineFault(FaultCode::kInvariant,
                          "ranks disagree on the tokens of step " + std::to_string(outcome.result.step));
      outcome.busy_ms = std::max(outcome.busy_ms, other.busy_ms);
    }
    rank->results.erase(rank->results.begin());
  }
  return outcome;
}

void WorkerGroup::abort(FaultCode code, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!fault_) fault_ = Fault{code, reason};
    arrived_.notify_all();
  }
  for (auto& rank : ranks_) {
    rank->executor->abort();
    rank->commands.close();
  }
}

}  // namespace slipstream
