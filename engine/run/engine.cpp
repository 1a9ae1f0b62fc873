// The engine thread: takes submissions, turns the loop, sleeps when there is nothing to do, dies honestly.
#include "engine/run/engine.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/run/step_loop.h"
#include "engine/run/watchdog.h"
#include "engine/run/worker_group.h"
#include "engine/schedule/scheduler.h"

namespace slipstream {
namespace {

constexpr const char* kStopText = "the server is shutting down";
constexpr const char* kDeadText = "the engine failed; the server restarts";

/// A plan for the log: everything but token ids, which would be prompt text.
StepPlan without_tokens(const StepPlan& plan) {
  StepPlan bare = plan;
  for (SlotCommand& command : bare.commands)
    if (auto* open = std::get_if<OpenSlot>(&command)) {
      open->history.clear();
      open->sampling.stop_ids.clear();
      open->sampling.logit_bias.clear();
    }
  for (Span& span : bare.spans) span.supplied_drafts.clear();
  return bare;
}

}  // namespace

struct Engine::Body {
  Body(EngineLimits engine_limits, std::vector<std::unique_ptr<StepExecutor>> ranks, EngineHooks engine_hooks)
      : limits(std::move(engine_limits)),
        hooks(std::move(engine_hooks)),
        scheduler(limits, &clock,
                  SchedulerHooks{[this](const Request& request) { leave_queue(request); }, hooks.request_done}),
        workers(std::move(ranks)),
        loop(&scheduler, &workers, &hooks, [this](std::shared_ptr<const StepPlan> plan) { launched(std::move(plan)); }),
        watchdog(limits.watchdog, [this] { hung(); }) {}

  // ---- engine thread ----
  void run();
  bool take_inbox();
  void one_turn();
  void after_turn();
  void die(FaultCode code, const std::string& reason);
  void launched(std::shared_ptr<const StepPlan> plan);
  void leave_queue(const Request& request);
  // ---- watchdog thread ----
  void hung();

  const EngineLimits limits;
  const EngineHooks hooks;
  const SteadyClock clock;
  Scheduler scheduler;   // engine thread only
  WorkerGroup workers;
  StepLoop loop;         // engine thread only
  std::thread thread;

  mutable std::mutex mutex;  // guards everything below
  std::condition_variable work;     // the engine thread waits here
  std::condition_variable settled;  // drain waits here
  std::vector<std::shared_ptr<Request>> inbox;
  EngineState state = EngineState::kStarting;
  int64_t queued_requests = 0;      // choices of requests that were admitted and have no slot yet
  int64_t queued_tokens = 0;
  bool idle = true;
  bool end_now = false;             // end every sequence at the next turn
  bool stop_now = false;
  bool fault_reported = false;
  int64_t invariant_failures = 0;
  EngineStats snapshot;
  Clock::TimePoint last_step{};
  std::shared_ptr<const StepPlan> last_plan;

  Watchdog watchdog;  // last: its thread uses all of the above
};

void Engine::Body::run() {
  while (take_inbox()) {
    try {
      one_turn();
    } catch (const EngineFault& fault) {
      die(fault.code, fault.what());
      return;
    } catch (const std::exception& error) {
      die(FaultCode::kInvariant, std::string("the engine thread failed: ") + error.what());
      return;
    }
  }
  scheduler.end_all(ErrorCause::kShutdown, kStopText);
  std::lock_guard lock(mutex);
  scheduler.fill(&snapshot);
  idle = true;
  settled.notify_all();
}

/// Waits for work; false when the engine shall stop.
bool Engine::Body::take_inbox() {
  std::vector<std::shared_ptr<Request>> arrived;
  bool end_sequences = false;
  {
    std::unique_lock lock(mutex);
    work.wait(lock, [&] { return !idle || !inbox.empty() || end_now || stop_now; });
    arrived.swap(inbox);
    end_sequences = end_now || stop_now;
    end_now = false;
    if (!arrived.empty()) idle = false;
  }
  for (auto& request : arrived) scheduler.add(std::move(request));
  if (end_sequences) scheduler.end_all(ErrorCause::kShutdown, kStopText);
  std::lock_guard lock(mutex);
  return !stop_now;
}

void Engine::Body::one_turn() {
  const bool waits = loop.in_flight();
  loop.turn();
  if (!loop.in_flight())
    watchdog.disarm();
  else if (waits)
    watchdog.feed();
  after_turn();
}

void Engine::Body::after_turn() {
  const bool rests = scheduler.idle();
  std::string broken;
  if (rests && !scheduler.check(&broken)) {
    {
      std::lock_guard lock(mutex);
      ++invariant_failures;
    }
    throw EngineFault(FaultCode::kInvariant, "cache blocks do not add up: " + broken);
  }
  std::lock_guard lock(mutex);
  scheduler.fill(&snapshot);
  last_step = clock.now();
  idle = rests && inbox.empty();
  if (idle) settled.notify_all();
}

void Engine::Body::launched(std::shared_ptr<const StepPlan> plan) {
  watchdog.arm();
  std::lock_guard lock(mutex);
  last_plan = std::move(plan);
}

void Engine::Body::leave_queue(const Request& request) {
  std::lock_guard lock(mutex);
  queued_requests -= request.n;
  queued_tokens -= static_cast<int64_t>(request.prompt.size());
}

/// The last thing that this thread does: nobody waits for an answer that will not come.
void Engine::Body::die(FaultCode code, const std::string& reason) {
  std::vector<std::shared_ptr<Request>> arrived;
  bool report = false;
  {
    std::lock_guard lock(mutex);
    state = EngineState::kDead;
    arrived.swap(inbox);
    report = !fault_reported;
    fault_reported = true;
  }
  watchdog.disarm();
  for (auto& request : arrived) scheduler.add(std::move(request));
  scheduler.end_all(ErrorCause::kFault, kDeadText);
  {
    std::lock_guard lock(mutex);
    scheduler.fill(&snapshot);
    idle = true;
    settled.notify_all();
  }
  log::error("engine_dead", {{"code", static_cast<int>(code)}, {"reason", reason}});
  if (report && hooks.fatal) hooks.fatal(static_cast<int>(code), reason);
}

void Engine::Body::hung() {
  std::shared_ptr<const StepPlan> plan;
  {
    std::lock_guard lock(mutex);
    plan = last_plan;
    state = EngineState::kDead;
  }
  const std::string reason = "a step did not end within " + std::to_string(limits.watchdog.count()) + " s";
  log::error("watchdog", {{"reason", reason}, {"plan", plan == nullptr ? "none" : to_json(without_tokens(*plan))}});
  workers.abort(FaultCode::kWatchdog, reason);  // the engine thread ends the requests and reports
  std::unique_lock lock(mutex);
  settled.wait_for(lock, std::chrono::milliseconds(500), [&] { return fault_reported; });
  const bool report = !fault_reported;
  fault_reported = true;
  lock.unlock();
  if (report && hooks.fatal) hooks.fatal(static_cast<int>(FaultCode::kWatchdog), reason);
}

Engine::Engine(EngineLimits limits, std::vector<std::unique_ptr<StepExecutor>> ranks, EngineHooks hooks)
    : body_(std::make_unique<Body>(std::move(limits), std::move(ranks), std::move(hooks))) {}

Engine::~Engine() { stop(); }

void Engine::start() {
  std::lock_guard lock(body_->mutex);
  CHECK(body_->state == EngineState::kStarting, "an engine starts once");
  body_->state = EngineState::kReady;
  body_->thread = std::thread([body = body_.get()] { body->run(); });
}

Status Engine::submit(std::shared_ptr<Request> request) {
  const EngineLimits& limits = body_->limits;
  SLIP_RETURN_IF_ERROR(check_request(*request, limits));
  const auto tokens = static_cast<int64_t>(request->prompt.size());
  std::lock_guard lock(body_->mutex);
  switch (body_->state) {
    case EngineState::kStarting:
    case EngineState::kReady: break;
    case EngineState::kDraining:
    case EngineState::kStopped: return Error{ErrorCode::kUnavailable, kStopText, {}};
    case EngineState::kDead: return Error{ErrorCode::kUnavailable, kDeadText, {}};
  }
  // Every choice counts. One request with many of them is let in when nobody waits, whatever the bound.
  if (body_->queued_requests > 0 && body_->queued_requests + request->n > limits.max_queued_requests)
    return Error{ErrorCode::kResourceExhausted,
                 "the queue holds " + std::to_string(body_->queued_requests) + " choices and takes " + std::to_string(limits.max_queued_requests) + "; " +
                     std::to_string(request->n) + " more do not fit; retry later",
                 {}};
  // A single long prompt is let in when nobody waits, whatever the bound.
  if (body_->queued_requests > 0 && body_->queued_tokens + tokens > limits.max_queued_tokens)
    return Error{ErrorCode::kResourceExhausted,
                 "the queue holds " + std::to_string(body_->queued_tokens) + " prompt tokens and takes " +
                     std::to_string(limits.max_queued_tokens) + "; " + std::to_string(tokens) +
                     " more do not fit; retry later",
                 {}};
  if (request->arrival == Clock::TimePoint{}) request->arrival = body_->clock.now();
  body_->queued_requests += request->n;
  body_->queued_tokens += tokens;
  body_->inbox.push_back(std::move(request));
  body_->work.notify_one();
  return Ok{};
}

bool Engine::drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(body_->mutex);
  if (body_->state == EngineState::kReady || body_->state == EngineState::kStarting)
    body_->state = EngineState::kDraining;
  const auto rests = [&] { return body_->idle && body_->inbox.empty(); };
  if (!body_->thread.joinable()) return rests();
  if (body_->settled.wait_for(lock, timeout, rests)) return true;
  body_->end_now = true;
  body_->work.notify_one();
  // The step in flight still has to end; the watchdog bounds it.
  body_->settled.wait(lock, rests);
  return false;
}

void Engine::stop() {
  {
    std::lock_guard lock(body_->mutex);
    body_->stop_now = true;
    if (body_->state != EngineState::kDead) body_->state = EngineState::kStopped;
    body_->work.notify_one();
  }
  if (body_->thread.joinable()) body_->thread.join();
  // Requests that came before start, if it never came.
  std::vector<std::shared_ptr<Request>> left;
  {
    std::lock_guard lock(body_->mutex);
    left.swap(body_->inbox);
  }
  for (const auto& request : left)
    for (int32_t choice = 0; choice < request->n; ++choice) {
      OutputEvent event;
      event.choice = choice;
      event.finish = FinishReason::kError;
      event.cause = ErrorCause::kShutdown;
      event.error = kStopText;
      request->output->push(std::move(event));
    }
}

EngineState Engine::state() const {
  std::lock_guard lock(body_->mutex);
  return body_->state;
}

EngineStats Engine::stats() const {
  std::lock_guard lock(body_->mutex);
  EngineStats stats = body_->snapshot;
  stats.waiting_tokens = body_->queued_tokens;
  for (const auto& request : body_->inbox) stats.waiting += request->n;
  stats.blocks_total = body_->limits.num_blocks;
  stats.invariant_failures = body_->invariant_failures;
  if (stats.steps == 0 && stats.blocks_used + stats.blocks_cached + stats.blocks_free == 0)
    stats.blocks_free = stats.blocks_total;
  stats.last_step_age_s = body_->idle || body_->last_step == Clock::TimePoint{}
                              ? 0
                              : std::chrono::duration<double>(body_->clock.now() - body_->last_step).count();
  return stats;
}

const EngineLimits& Engine::limits() const { return body_->limits; }

}  // namespace slipstream
