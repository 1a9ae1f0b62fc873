// The plan log: equal on an inline device, behind worker threads and at two ranks; and a replayed log gives the same
// tokens.
#include <sstream>
#include <thread>

#include "engine/run/replay.h"
#include "engine/spec/ngram_drafter.h"
#include "tests/sim/simulation.h"
#include "tests/catch.h"  // last: its CHECK replaces ours

using namespace slipstream;
using namespace slipstream::sim;

namespace {

constexpr int32_t kVocab = 61;

EngineLimits small_limits() {
  EngineLimits limits;
  limits.max_num_seqs = 4;
  limits.max_batched_tokens = 24;
  limits.context_length = 120;
  limits.vocab = kVocab;
  limits.block_tokens = 8;
  limits.num_blocks = 20;  // tight: preemption happens
  limits.step_budget = std::chrono::milliseconds(0);  // measured time must not shape the plans
  limits.max_draft_tokens = 3;
  return limits;
}

FakeDevice small_device(const EngineLimits& limits) {
  FakeDevice device;
  device.shape = {limits.max_num_seqs, 1, limits.block_tokens, limits.max_batched_tokens, limits.max_draft_tokens};
  device.blocks = limits.num_blocks;
  device.law = hash_token_law(kVocab);
  device.drafter = std::make_shared<NgramDrafter>(1, 3);
  return device;
}

std::vector<std::shared_ptr<Request>> requests() {
  std::vector<std::shared_ptr<Request>> all;
  for (int32_t i = 0; i < 12; ++i) {
    auto request = std::make_shared<Request>();
    request->id = std::to_string(i);
    for (int32_t t = 0; t < 10 + 3 * i; ++t) request->prompt.push_back(t < 16 ? t : (t * i) % kVocab);
    request->n = i % 5 == 4 ? 3 : 1;
    request->sampling.seed = static_cast<uint64_t>(i);
    request->sampling.max_tokens = 20 + i;
    request->sampling.stop_ids = {7};
    request->sampling.temperature = 0.7f;
    request->output = std::make_shared<OutputChannel>(1000);
    all.push_back(std::move(request));
  }
  return all;
}

using Texts = std::vector<std::vector<Received>>;

std::vector<std::string> run_inline(Texts* texts, std::vector<StepResult>* results, int64_t* preemptions) {
  const EngineLimits limits = small_limits();
  SimulatedClock clock;
  FakeExecutor device(small_device(limits));
  InlineRanks ranks(&device, &clock);
  std::vector<std::string> log;
  EngineHooks hooks;
  hooks.plan_log = [&](const StepPlan& plan) { log.push_back(to_json(plan)); };
  hooks.step_done = [&](const StepPlan&, const StepResult& result, double) { results->push_back(result); };
  Scheduler scheduler(limits, &clock, {});
  StepLoop loop(&scheduler, &ranks, &hooks, {});
  const auto all = requests();
  for (const auto& request : all) scheduler.add(request);
  while (!scheduler.idle()) REQUIRE(loop.turn());
  for (const auto& request : all) {
    texts->emplace_back(static_cast<size_t>(request->n));
    receive(*request->output, &texts->back());
  }
  EngineStats stats;
  scheduler.fill(&stats);
  *preemptions = stats.preemptions;
  return log;
}

/// looks > 0: the devices run on while the host does other things.
std::vector<std::string> run_threaded(int ranks, Texts* texts, int32_t looks = 0, int64_t* overlapped = nullptr) {
  const EngineLimits limits = small_limits();
  std::vector<std::unique_ptr<StepExecutor>> executors;
  std::vector<FakeExecutor*> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    FakeDevice device = small_device(limits);
    device.step_delay = std::chrono::microseconds(100 + 150 * rank);
    device.looks_until_ready = looks;
    auto executor = std::make_unique<FakeExecutor>(std::move(device));
    devices.push_back(executor.get());
    executors.push_back(std::move(executor));
  }
  std::vector<std::string> log;
  EngineHooks hooks;
  hooks.plan_log = [&](const StepPlan& plan) { log.push_back(to_json(plan)); };
  Engine engine(limits, std::move(executors), hooks);
  const auto all = requests();
  for (const auto& request : all) REQUIRE(engine.submit(request).ok());
  engine.start();
  REQUIRE(engine.drain(std::chrono::seconds(180)));
  engine.stop();
  if (overlapped != nullptr)
    for (const FakeExecutor* device : devices) *overlapped += device->overlapped();
  for (const auto& request : all) {
    texts->emplace_back(static_cast<size_t>(request->n));
    receive(*request->output, &texts->back());
  }
  return log;
}

void require_equal(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("plan " << i);
    REQUIRE(a[i] == b[i]);
  }
}

void require_equal(const Texts& a, const Texts& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t c = 0; c < a[i].size(); ++c) {
      REQUIRE(a[i][c].tokens == b[i][c].tokens);
      REQUIRE(a[i][c].finish == b[i][c].finish);
    }
}

}  // namespace

TEST_CASE("the plan log does not depend on the device's timing or on the number of ranks") {
  Texts inline_texts, one_texts, two_texts;
  std::vector<StepResult> results;
  int64_t preemptions = 0;
  const auto inline_log = run_inline(&inline_texts, &results, &preemptions);
  REQUIRE(inline_log.size() > 30);
  REQUIRE(preemptions > 0);
  const auto one = run_threaded(1, &one_texts);
  const auto two = run_threaded(2, &two_texts);
  require_equal(inline_log, one);
  require_equal(inline_log, two);
  require_equal(inline_texts, one_texts);
  require_equal(inline_texts, two_texts);
}

TEST_CASE("a device that runs on gives the same plans and texts, and forwards begin before results are taken") {
  Texts inline_texts;
  std::vector<StepResult> results;
  int64_t preemptions = 0;
  const auto inline_log = run_inline(&inline_texts, &results, &preemptions);
  for (const int ranks : {1, 2}) {
    Texts texts;
    int64_t overlapped = 0;
    // The scheduler needs some microseconds for its next plan; a look is one pass of the worker's loop.
    require_equal(inline_log, run_threaded(ranks, &texts, 4000, &overlapped));
    require_equal(inline_texts, texts);
    REQUIRE(overlapped > 10);
  }
}

TEST_CASE("a replayed plan log gives the same tokens") {
  Texts texts;
  std::vector<StepResult> first;
  int64_t preemptions = 0;
  const auto log = run_inline(&texts, &first, &preemptions);
  std::stringstream lines;
  for (const std::string& line : log) lines << line << '\n';
  FakeExecutor device(small_device(small_limits()));
  const auto again = replay(lines, device);
  REQUIRE(again.ok());
  REQUIRE(again->size() == first.size());
  int64_t emitted = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    REQUIRE((*again)[i].digest == first[i].digest);
    for (size_t s = 0; s < first[i].spans.size(); ++s) {
      REQUIRE((*again)[i].spans[s].emitted == first[i].spans[s].emitted);
      emitted += static_cast<int64_t>(first[i].spans[s].emitted.size());
    }
  }
  REQUIRE(emitted > 100);

  std::stringstream damaged(log[0] + "\n{\"step\": 2}\n");
  FakeExecutor fresh(small_device(small_limits()));
  const auto refused = replay(damaged, fresh);
  REQUIRE(!refused.ok());
  REQUIRE(refused.error().message.find("line 2") != std::string::npos);
}
