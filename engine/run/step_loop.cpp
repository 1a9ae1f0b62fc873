#include "engine/run/step_loop.h"

namespace slipstream {

StepLoop::StepLoop(Scheduler* scheduler, StepRanks* ranks, const EngineHooks* hooks,
                   std::function<void(std::shared_ptr<const StepPlan>)> launched)
    : scheduler_(scheduler), ranks_(ranks), hooks_(hooks), launched_(std::move(launched)) {}

bool StepLoop::turn() {
  std::shared_ptr<const StepPlan> next;
  if (auto plan = scheduler_->build()) {
    next = std::make_shared<const StepPlan>(std::move(*plan));
    if (hooks_->plan_log) hooks_->plan_log(*next);
    if (launched_) launched_(next);
    ranks_->launch_forward(next);
  }
  const bool waited = committed_ != nullptr;
  if (waited) take_result();
  if (next != nullptr) {
    // From the result just read, while the forward runs.
    ranks_->launch_commit(next, scheduler_->masks(*next));
    committed_ = std::move(next);
    return true;
  }
  if (!waited && scheduler_->has_sequences())
    throw EngineFault(FaultCode::kInvariant, "no step can be planned, but sequences are alive");
  return waited;
}

void StepLoop::take_result() {
  StepRanks::Outcome outcome = ranks_->wait_result();
  if (outcome.result.step != committed_->step)
    throw EngineFault(FaultCode::kInvariant, "result of step " + std::to_string(outcome.result.step) +
                                                 " came for step " + std::to_string(committed_->step));
  scheduler_->apply(outcome.result, outcome.busy_ms);
  if (hooks_->step_done) hooks_->step_done(*committed_, outcome.result, outcome.busy_ms);
  committed_.reset();
}

}  // namespace slipstream
