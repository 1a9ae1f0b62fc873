#include "engine/run/worker_group.h"

#include <algorithm>
#include <chrono>
#include <new>

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
  using Milliseconds = std::chrono::duration<double, std::milli>;
  double forward_ms = 0;
  try {
    while (auto command = rank->commands.pop()) {
      const auto start = std::chrono::steady_clock::now();
      if (!command->commit) {
        rank->executor->forward(*command->plan);
        forward_ms = Milliseconds(std::chrono::steady_clock::now() - start).count();
        continue;
      }
      Outcome outcome;
      outcome.result = rank->executor->commit(*command->plan, *command->masks);
      outcome.busy_ms = forward_ms + Milliseconds(std::chrono::steady_clock::now() - start).count();
      std::lock_guard lock(mutex_);
      rank->results.push_back(std::move(outcome));
      arrived_.notify_all();
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
