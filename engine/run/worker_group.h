// One thread per rank, all running the same plans. Owns the executors; compares what the ranks report. Methods are
// called by the engine thread, abort by any thread. Knows no scheduler.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/bounded_queue.h"
#include "engine/run/step_executor.h"
#include "engine/run/step_loop.h"

namespace slipstream {

/// A launch of one plan; the same object goes to every rank.
struct WorkerCommand {
  bool commit = false;
  std::shared_ptr<const StepPlan> plan;
  std::shared_ptr<const StepMasks> masks;  // commit only
};

class WorkerGroup final : public StepRanks {
 public:
  explicit WorkerGroup(std::vector<std::unique_ptr<StepExecutor>> ranks);
  /// Lets the running step end and joins.
  ~WorkerGroup() override;
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  void launch_forward(std::shared_ptr<const StepPlan> plan) override;
  void launch_commit(std::shared_ptr<const StepPlan> plan, StepMasks masks) override;
  /// Waits for every rank. Throws EngineFault: kDevice when a rank threw, kInvariant when their digests differ, and what
  /// abort was given.
  Outcome wait_result() override;

  /// Wakes wait_result with this fault and every rank that waits for a peer. The first fault stands.
  void abort(FaultCode code, const std::string& reason);

 private:
  struct Rank {
    std::unique_ptr<StepExecutor> executor;
    BoundedQueue<WorkerCommand> commands{4};  // the loop launches at most two steps of two launches
    std::vector<Outcome> results;             // guarded by mutex_; at most two
    std::thread thread;
  };
  struct Fault {
    FaultCode code;
    std::string reason;
  };
  void rank_loop(Rank* rank);
  void send(const WorkerCommand& command);

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<Fault> fault_;
};

}  // namespace slipstream
