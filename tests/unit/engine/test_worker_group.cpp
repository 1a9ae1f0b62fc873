#include "engine/run/fake_executor.h"
#include "engine/run/worker_group.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

FakeDevice device_of() {
  FakeDevice device;
  device.shape = {2, 1, 4, 16, 0};
  device.blocks = 8;
  device.law = hash_token_law(40);
  device.faults = std::make_shared<FaultSchedule>();
  return device;
}

std::shared_ptr<const StepPlan> prefill_plan() {
  auto plan = std::make_shared<StepPlan>();
  plan->step = 1;
  OpenSlot open;
  open.generation = 1;
  open.history = {1, 2, 3};
  open.prompt_tokens = 3;
  open.remaining_tokens = 5;
  Span span;
  span.generation = 1;
  span.rows = 3;
  span.logits = LogitsWanted::kLast;
  plan->commands = {open, GrantBlocks{0, 0, {2}}};
  plan->spans = {span};
  return plan;
}

std::unique_ptr<WorkerGroup> group_of(std::vector<FakeDevice> devices) {
  std::vector<std::unique_ptr<StepExecutor>> ranks;
  for (auto& device : devices) ranks.push_back(std::make_unique<FakeExecutor>(std::move(device)));
  return std::make_unique<WorkerGroup>(std::move(ranks));
}

FaultCode fault_of(WorkerGroup& group) {
  const auto plan = prefill_plan();
  group.launch_forward(plan);
  group.launch_commit(plan, {});
  try {
    group.wait_result();
  } catch (const EngineFault& fault) {
    return fault.code;
  }
  FAIL("no fault");
  return FaultCode::kDevice;
}

}  // namespace

TEST_CASE("every rank runs the plan and one result comes back") {
  auto slow = device_of();
  slow.step_delay = std::chrono::milliseconds(5);
  const auto group = group_of({device_of(), slow});
  const auto plan = prefill_plan();
  group->launch_forward(plan);
  group->launch_commit(plan, {});
  const auto outcome = group->wait_result();
  REQUIRE(outcome.result.step == 1);
  REQUIRE(outcome.result.spans[0].emitted.size() == 1);
  REQUIRE(outcome.busy_ms >= 10);  // the slowest rank's forward and commit
}

TEST_CASE("ranks that disagree end with 72, one that throws with 70") {
  auto other = device_of();
  other.faults->fire_at("digest", 1);
  REQUIRE(fault_of(*group_of({device_of(), other})) == FaultCode::kInvariant);
  auto broken = device_of();
  broken.faults->fire_at("device_error", 1);
  REQUIRE(fault_of(*group_of({device_of(), broken})) == FaultCode::kDevice);
}

TEST_CASE("abort wakes the waiter with its code") {
  auto slow = device_of();
  slow.step_delay = std::chrono::milliseconds(200);
  const auto group = group_of({slow});
  std::thread dog([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    group->abort(FaultCode::kWatchdog, "hung");
  });
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(fault_of(*group) == FaultCode::kWatchdog);
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(180));
  dog.join();
}
