// One rank's device, as the worker thread sees it. Implemented by ModelExecutor (reference, cpu), CudaExecutor and
// FakeExecutor (tests: delays, results one step late, chosen faults).
#pragma once

#include <deque>
#include <utility>

#include "engine/schedule/step_plan.h"

namespace slipstream {

/// Allowed-token masks of a step's rows, uploaded between forward and commit. Empty when no row has one. They stand beside the
/// plan's logit rows (logit_rows_of each span, in order), whichever of them run; a mask of a row that does not is not read.
/// A row that may draw no token at all ends its sequence as a non-finite row does.
struct StepMasks {
  std::vector<std::vector<uint32_t>> rows;  // [ceil(vocab / 32)] bits each; an empty inner vector is "all allowed"
};
/// Throws DeviceError when the masks do not fit the plan or the vocabulary.
void require_masks(const StepPlan& plan, const StepMasks& masks, int32_t vocab);

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
