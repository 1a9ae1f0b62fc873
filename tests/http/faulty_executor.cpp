// See faulty_executor.h.
#include "tests/http/faulty_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace slipstream::test {
namespace {

constexpr std::array kPoints = {"device_error", "hang", "illegal_read", "trap"};

class FaultyExecutor final : public StepExecutor {
 public:
  FaultyExecutor(std::unique_ptr<StepExecutor> inner, Ops& ops, std::shared_ptr<FaultSchedule> faults, size_t min_spans)
      : inner_(std::move(inner)), ops_(ops), faults_(std::move(faults)), min_spans_(min_spans) {}

  void forward(const StepPlan& plan) override {
    for (const char* point : kPoints)
      if (plan.spans.size() >= min_spans_ && faults_->passes(point)) fail(point);
    inner_->forward(plan);
  }
  StepResult commit(const StepPlan& plan, const StepMasks& masks) override { return inner_->commit(plan, masks); }
  void launch_commit(const StepPlan& plan, const StepMasks& masks) override { inner_->launch_commit(plan, masks); }
  bool result_ready() override { return inner_->result_ready(); }
  StepResult take_result() override { return inner_->take_result(); }
  void abort() override { inner_->abort(); }

 private:
  void fail(const std::string& point) {
    if (point == "device_error") throw DeviceError("a fault that the test asked for");
    if (launch_device_fault(ops_, point)) return;
    if (point != "hang") throw DeviceError("the fault " + point + " needs a GPU");
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  std::unique_ptr<StepExecutor> inner_;
  Ops& ops_;
  std::shared_ptr<FaultSchedule> faults_;
  const size_t min_spans_;
};

}  // namespace

std::unique_ptr<StepExecutor> make_faulty_executor(std::unique_ptr<StepExecutor> inner, Ops& ops, std::shared_ptr<FaultSchedule> faults,
                                                   size_t min_spans) {
  return std::make_unique<FaultyExecutor>(std::move(inner), ops, std::move(faults), min_spans);
}

bool is_fault_point(const std::string& point) { return std::ranges::find(kPoints, point) != kPoints.end(); }

}  // namespace slipstream::test
