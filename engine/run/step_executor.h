// One rank's device, as the worker thread sees it. Implemented by ModelExecutor (reference, cpu, later cuda) and by
// FakeExecutor (tests: delays, results one step late, chosen faults).
#pragma once

#include "engine/schedule/step_plan.h"

namespace slipstream {

/// Allowed-token masks of a step's rows, uploaded between forward and commit. Empty when no row has one.
struct StepMasks {
  std::vector<std::vector<uint32_t>> rows;  // beside the logit rows; an empty inner vector is "all allowed"
};

/// Worker thread only. Called as forward(n), commit(n), forward(n+1), … in plan order. Throws DeviceError.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  /// Carries out the plan's commands, then embeds and runs the layers.
  virtual void forward(const StepPlan& plan) = 0;
  /// Head, penalties, sampling or verification, slot update, drafts.
  virtual StepResult commit(const StepPlan& plan, const StepMasks& masks) = 0;
  /// Any thread: makes a rank that waits for its peers throw DeviceError. Nothing to do at one rank.
  virtual void abort() {}
};

}  // namespace slipstream
