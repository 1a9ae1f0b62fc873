// The threads around the loop: submission, bounds, drain, faults, watchdog.
#include <atomic>
#include <ctime>
#include <future>

#include "tests/sim/simulation.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::sim;

namespace {

constexpr int32_t kVocab = 50;
using namespace std::chrono_literals;

EngineLimits limits_of() {
  EngineLimits limits;
  limits.max_num_seqs = 4;
  limits.max_batched_tokens = 32;
  limits.max_queued_requests = 4;
  limits.max_queued_tokens = 100;
  limits.context_length = 4000;
  limits.vocab = kVocab;
  limits.block_tokens = 8;
  limits.num_blocks = 500;
  limits.step_budget = 0ms;
  return limits;
}

FakeDevice device_of(const EngineLimits& limits) {
  FakeDevice device;
  device.shape = {limits.max_num_seqs, 1, limits.block_tokens, limits.max_batched_tokens, limits.max_draft_tokens};
  device.blocks = limits.num_blocks;
  device.law = hash_token_law(kVocab);
  device.faults = std::make_shared<FaultSchedule>();
  device.step_delay = 100us;
  return device;
}

std::shared_ptr<Request> request_of(int32_t prompt, int32_t max_tokens) {
  auto request = std::make_shared<Request>();
  for (int32_t t = 0; t < prompt; ++t) request->prompt.push_back(t % kVocab);
  request->sampling.max_tokens = max_tokens;
  request->output = std::make_shared<OutputChannel>(5000);
  return request;
}

std::unique_ptr<Engine> engine_of(const EngineLimits& limits, FakeDevice device, EngineHooks hooks = {}) {
  std::vector<std::unique_ptr<StepExecutor>> ranks;
  ranks.push_back(std::make_unique<FakeExecutor>(std::move(device)));
  return std::make_unique<Engine>(limits, std::move(ranks), std::move(hooks));
}

/// Reads until the choice ends. For any thread: asserts nothing, as Catch's assertions belong to the test's own.
Received read_to_end(const std::shared_ptr<Request>& request, std::chrono::seconds limit = 10s) {
  Received got;
  const auto until = std::chrono::steady_clock::now() + limit;
  while (got.ends == 0 && std::chrono::steady_clock::now() < until) {
    const auto event = request->output->pop(100ms);
    if (!event) continue;
    got.tokens.insert(got.tokens.end(), event->tokens.begin(), event->tokens.end());
    if (event->finish == FinishReason::kNone) continue;
    ++got.ends;
    got.finish = event->finish;
    got.error = event->error;
  }
  return got;
}

Received wait_end(const std::shared_ptr<Request>& request, std::chrono::seconds limit = 10s) {
  Received got = read_to_end(request, limit);
  REQUIRE(got.ends == 1);
  return got;
}

double process_cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

TEST_CASE("requests from several threads get their own text") {
  const EngineLimits limits = [] {
    EngineLimits l = limits_of();
    l.max_queued_requests = 100;
    l.max_queued_tokens = 10000;
    return l;
  }();
  const auto engine = engine_of(limits, device_of(limits));
  engine->start();
  std::vector<std::future<bool>> clients;
  for (int32_t c = 0; c < 4; ++c)
    clients.push_back(std::async(std::launch::async, [&, c] {
      for (int32_t i = 0; i < 5; ++i) {
        const auto request = request_of(5 + c * 7 + i, 10 + i);
        if (!engine->submit(request).ok()) return false;
        const Received got = read_to_end(request);
        if (got.ends != 1 || got.tokens != expected_text(hash_token_law(kVocab), *request, 0).tokens) return false;
      }
      return true;
    }));
  for (auto& client : clients) REQUIRE(client.get());
  REQUIRE(engine->drain(10s));
  const EngineStats stats = engine->stats();
  REQUIRE(stats.finished_length == 20);
  REQUIRE(stats.blocks_used == 0);
  REQUIRE(stats.blocks_free + stats.blocks_cached == stats.blocks_total);
  REQUIRE(stats.waiting_tokens == 0);
  REQUIRE(stats.invariant_failures == 0);
  engine->stop();
  REQUIRE(engine->state() == EngineState::kStopped);
}

TEST_CASE("the queue is bounded by requests and by tokens, counted at admission") {
  const EngineLimits limits = limits_of();
  const auto engine = engine_of(limits, device_of(limits));
  const auto big = request_of(150, 1);  // over the token bound, but nobody waits
  REQUIRE(engine->submit(big).ok());
  const Status tokens = engine->submit(request_of(10, 1));
  REQUIRE(tokens.error().code == ErrorCode::kResourceExhausted);
  REQUIRE(tokens.error().message.find("100") != std::string::npos);
  engine->start();
  REQUIRE(wait_end(big).finish == FinishReason::kLength);

  const auto second = engine_of(limits, device_of(limits));
  for (int i = 0; i < 4; ++i) REQUIRE(second->submit(request_of(3, 1)).ok());
  const Status requests = second->submit(request_of(3, 1));
  REQUIRE(requests.error().code == ErrorCode::kResourceExhausted);
  REQUIRE(second->stats().waiting == 4);
  REQUIRE(second->stats().waiting_tokens == 12);
}

TEST_CASE("an idle engine uses no processor time") {
  const EngineLimits limits = limits_of();
  const auto engine = engine_of(limits, device_of(limits));
  engine->start();
  const auto request = request_of(5, 5);
  REQUIRE(engine->submit(request).ok());
  wait_end(request);
  std::this_thread::sleep_for(20ms);
  const double before = process_cpu_s();
  std::this_thread::sleep_for(200ms);
  REQUIRE(process_cpu_s() - before < 0.02);
  REQUIRE(engine->stats().last_step_age_s == 0);
}

TEST_CASE("drain refuses new work, finishes the old, and ends what takes too long") {
  const EngineLimits limits = limits_of();
  {
    const auto engine = engine_of(limits, device_of(limits));
    engine->start();
    const auto request = request_of(5, 50);
    REQUIRE(engine->submit(request).ok());
    REQUIRE(engine->drain(10s));
    REQUIRE(engine->submit(request_of(5, 5)).error().code == ErrorCode::kUnavailable);
    REQUIRE(wait_end(request).tokens.size() == 50);
  }
  FakeDevice slow = device_of(limits);
  slow.step_delay = 2ms;
  const auto engine = engine_of(limits, slow);
  engine->start();
  const auto running = request_of(5, 3000), waiting = request_of(5, 3000);
  REQUIRE(engine->submit(running).ok());
  REQUIRE(engine->submit(waiting).ok());
  REQUIRE(!engine->drain(50ms));
  for (const auto& request : {running, waiting}) {
    const Received got = wait_end(request);
    REQUIRE(got.finish == FinishReason::kError);
    REQUIRE(got.error.find("shutting down") != std::string::npos);
  }
}

TEST_CASE("a cancel is answered and frees the blocks") {
  const EngineLimits limits = limits_of();
  const auto engine = engine_of(limits, device_of(limits));
  engine->start();
  const auto request = request_of(5, 3000);
  REQUIRE(engine->submit(request).ok());
  REQUIRE(request->output->pop(5s).has_value());
  request->cancelled = true;
  REQUIRE(wait_end(request).finish == FinishReason::kCancelled);
  REQUIRE(engine->drain(5s));
  REQUIRE(engine->stats().blocks_used == 0);
  REQUIRE(engine->stats().finished_cancelled == 1);
}

TEST_CASE("a device error ends everybody, then the process with 70") {
  const EngineLimits limits = limits_of();
  FakeDevice device = device_of(limits);
  device.faults->fire_at("device_error", 5);
  std::promise<int> code;
  std::vector<std::shared_ptr<Request>> all;
  for (int i = 0; i < 4; ++i) all.push_back(request_of(5 + i, 1000));
  EngineHooks hooks;
  bool ended_before = true;
  hooks.fatal = [&](int exit_code, const std::string&) {
    for (const auto& request : all) {
      std::vector<Received> got(1);
      receive(*request->output, &got);
      ended_before = ended_before && got[0].ends == 1 && got[0].finish == FinishReason::kError;
    }
    code.set_value(exit_code);
  };
  const auto engine = engine_of(limits, device, hooks);
  for (const auto& request : all) REQUIRE(engine->submit(request).ok());
  engine->start();
  REQUIRE(code.get_future().get() == 70);
  REQUIRE(ended_before);
  REQUIRE(engine->state() == EngineState::kDead);
  REQUIRE(engine->submit(request_of(3, 3)).error().code == ErrorCode::kUnavailable);
  REQUIRE(engine->stats().finished_error == 4);
}

TEST_CASE("a hung step ends with 71 within the limit and a second") {
  EngineLimits limits = limits_of();
  limits.watchdog = 1s;
  FakeDevice device = device_of(limits);
  device.slow_delay = 2500ms;
  device.faults->fire_at("slow_step", 4);
  std::promise<int> code;
  EngineHooks hooks;
  hooks.fatal = [&](int exit_code, const std::string&) { code.set_value(exit_code); };
  const auto engine = engine_of(limits, device, hooks);
  const auto request = request_of(5, 1000);
  REQUIRE(engine->submit(request).ok());
  const auto start = std::chrono::steady_clock::now();
  engine->start();
  REQUIRE(code.get_future().get() == 71);
  const auto took = std::chrono::steady_clock::now() - start;
  REQUIRE(took >= 1s);
  REQUIRE(took < 2s);
  REQUIRE(wait_end(request).finish == FinishReason::kError);
}

TEST_CASE("stop answers requests that never started") {
  const EngineLimits limits = limits_of();
  auto engine = engine_of(limits, device_of(limits));
  const auto request = request_of(3, 3);
  request->n = 2;
  REQUIRE(engine->submit(request).ok());
  engine.reset();
  std::vector<Received> got(2);
  receive(*request->output, &got);
  REQUIRE(got[0].finish == FinishReason::kError);
  REQUIRE(got[1].finish == FinishReason::kError);
}
