// The one-step-ahead order, once, for the real engine and for the simulation. Engine thread only. Knows no thread and
// no channel.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "engine/run/engine.h"
#include "engine/run/step_executor.h"
#include "engine/schedule/scheduler.h"

namespace slipstream {

/// Exit codes of a dead engine (README).
enum class FaultCode : int { kDevice = 70, kWatchdog = 71, kInvariant = 72 };

/// Ends the engine. Thrown by StepRanks::wait_result, caught by the engine thread alone.
struct EngineFault : std::runtime_error {
  EngineFault(FaultCode fault, const std::string& reason) : std::runtime_error(reason), code(fault) {}
  FaultCode code;
};

/// All ranks as the loop sees them: two launches per step, carried out in launch order, and one result.
class StepRanks {
 public:
  struct Outcome {
    StepResult result;
    double busy_ms = 0;  // from its forward's start, or the result before, to its result; the slowest rank's
  };
  virtual ~StepRanks() = default;
  virtual void launch_forward(std::shared_ptr<const StepPlan> plan) = 0;
  virtual void launch_commit(std::shared_ptr<const StepPlan> plan, StepMasks masks) = 0;
  /// The oldest committed step's result. Throws EngineFault.
  virtual Outcome wait_result() = 0;
};

class StepLoop {
 public:
  /// Borrows everything. `launched` is told of each plan before it starts.
  StepLoop(Scheduler* scheduler, StepRanks* ranks, const EngineHooks* hooks,
           std::function<void(std::shared_ptr<const StepPlan>)> launched);

  /// One turn: build plan n+1 from results <= n-1, launch Forward n+1, wait for result n, launch Commit n+1. False when
  /// there was nothing to launch and nothing to wait for. Throws EngineFault; work that can never run is one.
  bool turn();
  bool in_flight() const { return committed_ != nullptr; }

 private:
  void take_result();

  Scheduler* const scheduler_;
  StepRanks* const ranks_;
  const EngineHooks* const hooks_;
  const std::function<void(std::shared_ptr<const StepPlan>)> launched_;
  std::shared_ptr<const StepPlan> committed_;  // its result has not been read
};

}  // namespace slipstream
