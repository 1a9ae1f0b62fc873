// One rank's device, as the worker thread sees it. Implemented by ModelExecutor (reference, cpu), CudaExecutor and
// FakeExecutor (tests: delays, results one step late, chosen faults).
#pragma once

#include <deque>
#include <utility>

#include "engine/schedule/step_plan.h"

namespace slipstream {

/// Allowed-token masks of a step's rows, uploaded between forward and commit. Empty when no row has one.
struct StepMasks {
  std::vector<std::vector<uint32_t>> rows;  // beside the logit rows; an empty inner vector is "all allowed"
};

/// Worker thread only. Called as forward(n), launch_commit(n), forward(n+1), … in plan order; at most two results are
/// untaken. Throws DeviceError.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  /// Carries out the plan's commands, then embeds and runs the layers.
  virtual void forward(const StepPlan& plan) = 0;
  /// Head, penalties, sampling or verification, slot update, drafts.
  virtual StepResult commit(const StepPlan& plan, const StepMasks& masks) = 0;

  /// commit in two parts, for devices that run on while the host does other things. By default the launch waits.
  virtual void launch_commit(const StepPlan& plan, const StepMasks& masks) { finished_.push_back(commit(plan, masks)); }
  /// Whether take_result would not wait.
  virtual bool result_ready() { return !finished_.empty(); }
  /// The oldest launched commit's result.
  virtual StepResult take_result() {
    StepResult result = std::move(finished_.front());
    finished_.pop_front();
    return result;
  }
  /// Any thread: makes a rank that waits for its peers throw DeviceError. Nothing to do at one rank.
  virtual void abort() {}

 private:
  std::deque<StepResult> finished_;
};

}  // namespace slipstream
