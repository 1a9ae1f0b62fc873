// Chosen situations; random ones are in tests/sim.
#include "engine/spec/oracle_drafter.h"
#include "tests/sim/simulation.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::sim;

namespace {

constexpr int32_t kVocab = 50;

EngineLimits limits_of(int32_t slots, int32_t rows, int32_t blocks) {
  EngineLimits limits;
  limits.max_num_seqs = slots;
  limits.max_batched_tokens = rows;
  limits.context_length = 1000;
  limits.vocab = kVocab;
  limits.block_tokens = 4;
  limits.num_blocks = blocks;
  limits.step_budget = std::chrono::milliseconds(0);
  return limits;
}

struct Bench {
  explicit Bench(const EngineLimits& engine_limits)
      : limits(engine_limits), device(device_of(limits, &clock)), ranks(&device, &clock),
        scheduler(limits, &clock, {}), loop(&scheduler, &ranks, &hooks, {}) {
    hooks.plan_log = [this](const StepPlan& plan) { plans.push_back(plan); };
  }
  static FakeDevice device_of(const EngineLimits& limits, SimulatedClock* clock) {
    FakeDevice device;
    device.shape = {limits.max_num_seqs, 1, limits.block_tokens, limits.max_batched_tokens, limits.max_draft_tokens};
    device.blocks = limits.num_blocks;
    device.law = hash_token_law(kVocab);
    device.simulated = clock;
    device.faults = std::make_shared<FaultSchedule>();
    return device;
  }
  std::shared_ptr<Request> add(int32_t prompt, int32_t max_tokens, int32_t first = 0) {
    auto request = std::make_shared<Request>();
    for (int32_t t = 0; t < prompt; ++t) request->prompt.push_back((first + t) % kVocab);
    request->sampling.max_tokens = max_tokens;
    request->output = std::make_shared<OutputChannel>(1000);
    scheduler.add(request);
    return request;
  }
  void run() {
    while (!scheduler.idle()) turn();
  }
  void turn() {
    loop.turn();
    std::string what;
    if (!scheduler.check(&what)) FAIL(what);
    REQUIRE(device.foreign_reads() == 0);
  }
  EngineStats stats() const {
    EngineStats stats;
    scheduler.fill(&stats);
    return stats;
  }
  Received received(const std::shared_ptr<Request>& request, int32_t choice = 0) {
    std::vector<Received> all(static_cast<size_t>(request->n));
    receive(*request->output, &all);
    return all[static_cast<size_t>(choice)];
  }

  EngineLimits limits;
  SimulatedClock clock;
  FakeExecutor device;
  InlineRanks ranks;
  EngineHooks hooks;
  Scheduler scheduler;
  StepLoop loop;
  std::vector<StepPlan> plans;
};

}  // namespace

TEST_CASE("decode spans come first and prefill takes the rest of the rows") {
  Bench bench(limits_of(4, 8, 64));
  bench.add(4, 20);
  bench.turn();
  bench.add(20, 4, 7);
  bench.turn();
  const StepPlan& plan = bench.plans[1];
  REQUIRE(plan.spans.size() == 2);
  REQUIRE(plan.spans[0].kind == SpanKind::kDecode);
  REQUIRE(plan.spans[1].kind == SpanKind::kPrefill);
  REQUIRE(plan.spans[1].rows == 7);
  REQUIRE(plan.spans[1].logits == LogitsWanted::kNone);
  REQUIRE(plan.total_rows == 8);
  REQUIRE(plan.rows_class == 0);
  bench.run();
}

TEST_CASE("no step is planned for a sequence that plans in flight finish") {
  Bench bench(limits_of(1, 8, 8));
  bench.add(3, 4);
  bench.run();
  REQUIRE(bench.plans.size() == 4);  // a prefill and three decodes, not one step more
  REQUIRE(bench.stats().generated_tokens == 4);
}

TEST_CASE("a lower priority value runs first, then arrival") {
  Bench bench(limits_of(1, 8, 16));
  const auto first = bench.add(2, 2, 1);
  bench.turn();
  const auto late = bench.add(2, 2, 2), later = bench.add(2, 2, 3);
  later->priority = -1;
  std::vector<int32_t> order;
  while (!bench.scheduler.idle()) bench.turn();
  for (const StepPlan& plan : bench.plans)
    for (const SlotCommand& command : plan.commands)
      if (const auto* open = std::get_if<OpenSlot>(&command)) order.push_back(open->history[0]);
  REQUIRE(order == std::vector<int32_t>{1, 3, 2});
}

TEST_CASE("the newest is preempted, its text unchanged, the oldest never") {
  Bench bench(limits_of(2, 16, 12));
  const auto old_one = bench.add(10, 30, 0), new_one = bench.add(10, 30, 20);
  bench.run();
  REQUIRE(bench.stats().preemptions >= 1);
  for (const auto& request : {old_one, new_one})
    REQUIRE(bench.received(request).tokens == expected_text(hash_token_law(kVocab), *request, 0).tokens);
  int32_t opened_old = 0, opened_new = 0;
  for (const StepPlan& plan : bench.plans)
    for (const SlotCommand& command : plan.commands)
      if (const auto* open = std::get_if<OpenSlot>(&command)) (open->history[0] == 0 ? opened_old : opened_new) += 1;
  REQUIRE(opened_old == 1);
  REQUIRE(opened_new >= 2);
}

namespace {

/// Follows the plans: a sequence that is known by the first token of its history may not be opened again while a plan
/// that names its earlier slot is unread.
class ResumeWatch {
 public:
  void planned(const StepPlan& plan) {
    for (const SlotCommand& command : plan.commands)
      if (const auto* open = std::get_if<OpenSlot>(&command)) {
        const int32_t name = open->history[0];
        for (const auto& [step, names] : unread_) REQUIRE(std::ranges::count(names, name) == 0);
        names_[{open->slot, open->generation}] = name;
        openings += 1;
      } else if (const auto* release = std::get_if<ReleaseSlot>(&command)) {
        const int32_t name = names_.at({release->slot, release->generation});
        for (const auto& [step, names] : unread_) let_go_unread += std::ranges::count(names, name) > 0;
      }
    for (const Span& span : plan.spans) unread_[plan.step].push_back(names_.at({span.slot, span.generation}));
  }
  void read(uint64_t step) { unread_.erase(step); }

  int32_t openings = 0;
  int32_t let_go_unread = 0;  // slots released while a plan that names them was unread

 private:
  std::map<std::pair<int32_t, uint32_t>, int32_t> names_;
  std::map<uint64_t, std::vector<int32_t>> unread_;
};

}  // namespace

TEST_CASE("a preempted sequence is resumed only after its last unread plan") {
  // The older one draws whole spans of drafts and so asks for several blocks at once; the newer one is short and nearly
  // all of it is in the prefix cache, so that it could start again in the very plan that preempts it.
  const TokenLaw law = hash_token_law(kVocab);
  int32_t preempted = 0, resumed = 0, let_go_unread = 0;
  for (int32_t blocks = 12; blocks <= 40; ++blocks)
    for (int32_t arrival = 2; arrival <= 9; ++arrival) {
      INFO(blocks << " blocks, arrival " << arrival);
      EngineLimits limits = limits_of(3, 64, blocks);
      limits.max_draft_tokens = 12;
      SimulatedClock clock;
      FakeDevice device = Bench::device_of(limits, &clock);
      device.drafter = std::make_shared<OracleDrafter>([law](std::span<const int32_t> history) { return law(history, 0, 0); },
                                                       [](int32_t) { return false; }, kVocab);
      FakeExecutor executor(device);
      InlineRanks ranks(&executor, &clock);
      ResumeWatch watch;
      EngineHooks hooks;
      hooks.plan_log = [&](const StepPlan& plan) { watch.planned(plan); };
      hooks.step_done = [&](const StepPlan& plan, const StepResult&, double) { watch.read(plan.step); };
      Scheduler scheduler(limits, &clock, {});
      StepLoop loop(&scheduler, &ranks, &hooks, {});
      const auto request_of = [&](int32_t first, int32_t prompt, int32_t max_tokens, bool speculate) {
        auto request = std::make_shared<Request>();
        for (int32_t t = 0; t < prompt; ++t) request->prompt.push_back((first + 3 * t) % kVocab);
        request->sampling.max_tokens = max_tokens;
        request->speculate = speculate;
        request->output = std::make_shared<OutputChannel>(1000);
        return request;
      };
      const auto older = request_of(1, 4, std::min(4 * blocks - 4, 120), true), newer = request_of(2, 8, 4, false);
      scheduler.add(older);
      for (int32_t turn = 0; !scheduler.idle() || turn <= arrival; ++turn) {
        if (turn == arrival) scheduler.add(newer);
        if (!scheduler.idle()) loop.turn();
        std::string what;
        if (!scheduler.check(&what)) FAIL(what);
      }
      REQUIRE(executor.foreign_reads() == 0);
      for (const auto& request : {older, newer}) {
        std::vector<Received> got(1);
        receive(*request->output, &got);
        REQUIRE(got[0].ends == 1);
        REQUIRE(got[0].tokens == expected_text(law, *request, 0).tokens);
      }
      EngineStats stats;
      scheduler.fill(&stats);
      preempted += static_cast<int32_t>(stats.preemptions);
      resumed += watch.openings - 2;  // or finished by the plan in flight
      let_go_unread += watch.let_go_unread;
    }
  REQUIRE(preempted > 10);
  REQUIRE(resumed > 10);
  REQUIRE(resumed <= preempted);
  REQUIRE(let_go_unread > 5);
}

TEST_CASE("n choices prefill the shared blocks once") {
  for (const bool caching : {true, false}) {
    EngineLimits limits = limits_of(4, 64, 64);
    limits.prefix_caching = caching;
    Bench bench(limits);
    auto request = std::make_shared<Request>();
    for (int32_t t = 0; t < 18; ++t) request->prompt.push_back(t);
    request->n = 3;
    request->sampling.max_tokens = 6;
    request->output = std::make_shared<OutputChannel>(1000);
    bench.scheduler.add(request);
    bench.run();
    // 18 rows for the first, then 18 - 16 for each other.
    REQUIRE(bench.stats().prompt_tokens == 22);
    std::vector<Received> all(3);
    receive(*request->output, &all);
    for (int32_t choice = 0; choice < 3; ++choice)
      REQUIRE(all[static_cast<size_t>(choice)].tokens ==
              expected_text(hash_token_law(kVocab), *request, choice).tokens);
    // Without prefix caching another request gets nothing of it.
    const auto again = bench.add(18, 1);
    bench.run();
    REQUIRE(bench.stats().prompt_tokens == 22 + (caching ? 2 : 18));
    REQUIRE(bench.received(again).ends == 1);
  }
}

TEST_CASE("a cancel frees the blocks within two steps, whatever the state") {
  const auto cancelled_when = [](int32_t turns, int32_t prompt) {
    EngineLimits limits = limits_of(1, 8, 30);
    Bench bench(limits);
    const auto request = bench.add(prompt, 60);
    for (int32_t i = 0; i < turns; ++i) bench.turn();
    request->cancelled = true;
    bench.turn();
    bench.turn();
    REQUIRE(bench.stats().blocks_used == 0);
    REQUIRE(bench.scheduler.idle());
    REQUIRE(bench.received(request).finish == FinishReason::kCancelled);
  };
  cancelled_when(0, 30);  // waiting
  cancelled_when(2, 30);  // in the middle of its prompt
  cancelled_when(6, 10);  // decoding
  // Waiting behind another, and preempted.
  Bench bench(limits_of(2, 16, 12));
  const auto old_one = bench.add(10, 30, 0), new_one = bench.add(10, 30, 20);
  while (bench.stats().preemptions == 0) bench.turn();
  new_one->cancelled = true;
  bench.turn();
  REQUIRE(bench.received(new_one).finish == FinishReason::kCancelled);
  bench.run();
  REQUIRE(bench.received(old_one).tokens.size() == 30);
}

TEST_CASE("poisoned blocks are never hit again") {
  Bench bench(limits_of(2, 64, 32));
  EngineLimits limits = bench.limits;
  FakeDevice device = Bench::device_of(limits, &bench.clock);
  device.faults->fire_at("nan_row", 3);
  FakeExecutor faulty(device);
  InlineRanks ranks(&faulty, &bench.clock);
  StepLoop loop(&bench.scheduler, &ranks, &bench.hooks, {});
  const auto poisoned = bench.add(20, 10);
  while (!bench.scheduler.idle()) loop.turn();
  const Received got = bench.received(poisoned);
  REQUIRE(got.finish == FinishReason::kError);
  REQUIRE(got.tokens.size() == 2);
  REQUIRE(bench.stats().non_finite_rows == 1);
  REQUIRE(bench.stats().blocks_cached == 0);
  const auto again = bench.add(20, 10);
  while (!bench.scheduler.idle()) loop.turn();
  REQUIRE(bench.received(again).tokens.size() == 10);
  REQUIRE(bench.stats().prefix_hit_tokens == 0);
  REQUIRE(bench.stats().blocks_cached > 0);
}

TEST_CASE("the step budget cuts chunks while others decode, without changing the text") {
  EngineLimits limits = limits_of(2, 512, 400);
  limits.step_budget = std::chrono::milliseconds(10);
  const auto longest_mixed_ms = [&](bool budget) {
    EngineLimits own = limits;
    if (!budget) own.step_budget = std::chrono::milliseconds(0);
    FakeDevice device = Bench::device_of(own, nullptr);
    SimulatedClock clock;
    device.simulated = &clock;
    device.row_delay = std::chrono::microseconds(100);
    FakeExecutor executor(device);
    InlineRanks ranks(&executor, &clock);
    double longest = 0;
    EngineHooks hooks;
    Scheduler scheduler(own, &clock, {});
    hooks.step_done = [&](const StepPlan& plan, const StepResult&, double ms) {
      if (plan.spans.size() > 1) longest = std::max(longest, ms);
    };
    StepLoop loop(&scheduler, &ranks, &hooks, {});
    auto decoding = std::make_shared<Request>(), prompt = std::make_shared<Request>();
    decoding->prompt = {1};
    decoding->sampling.max_tokens = 60;
    for (int32_t t = 0; t < 600; ++t) prompt->prompt.push_back((t * 7) % kVocab);
    prompt->sampling.max_tokens = 5;
    for (const auto& request : {decoding, prompt}) request->output = std::make_shared<OutputChannel>(100);
    scheduler.add(decoding);
    for (int i = 0; i < 5; ++i) loop.turn();
    scheduler.add(prompt);
    while (!scheduler.idle()) loop.turn();
    std::vector<Received> got(1);
    receive(*prompt->output, &got);
    REQUIRE(got[0].tokens == expected_text(hash_token_law(kVocab), *prompt, 0).tokens);
    return longest;
  };
  REQUIRE(longest_mixed_ms(false) > 40);
  REQUIRE(longest_mixed_ms(true) <= 11);
}

TEST_CASE("what can never run is refused with the numbers") {
  const EngineLimits limits = limits_of(2, 16, 10);
  const auto fill = [](Request* request, int32_t prompt, int32_t max_tokens) {
    request->prompt.assign(static_cast<size_t>(prompt), 1);
    request->sampling.max_tokens = max_tokens;
    request->output = std::make_shared<OutputChannel>(1);
  };
  const auto refused = [&](const auto& change, ErrorCode code, std::vector<std::string> parts) {
    Request request;
    fill(&request, 4, 4);
    change(&request);
    const Status status = check_request(request, limits);
    REQUIRE(!status.ok());
    REQUIRE(status.error().code == code);
    for (const std::string& part : parts) {
      INFO(status.error().message);
      REQUIRE(status.error().message.find(part) != std::string::npos);
    }
  };
  {
    Request request;
    fill(&request, 20, 20);
    REQUIRE(check_request(request, limits).ok());
  }
  using R = Request*;
  refused([](R r) { r->prompt.assign(21, 1); r->sampling.max_tokens = 20; }, ErrorCode::kContextLength, {"11", "10"});
  refused([](R r) { r->sampling.max_tokens = 997; }, ErrorCode::kContextLength, {"1000", "1001"});
  refused([](R r) { r->prompt.clear(); }, ErrorCode::kInvalidArgument, {"prompt"});
  refused([](R r) { r->prompt[2] = kVocab; }, ErrorCode::kInvalidArgument, {"50", "49"});
  refused([](R r) { r->prompt[2] = -1; }, ErrorCode::kInvalidArgument, {"-1"});
  refused([](R r) { r->sampling.stop_ids = {kVocab}; }, ErrorCode::kInvalidArgument, {"stop_token_ids"});
  refused([](R r) { r->sampling.logit_bias = {{kVocab, 1}}; }, ErrorCode::kInvalidArgument, {"logit_bias"});
  refused([](R r) { r->n = 0; }, ErrorCode::kInvalidArgument, {"n is 0"});
  refused([](R r) { r->n = 17; }, ErrorCode::kInvalidArgument, {"16"});
  refused([](R r) { r->sampling.max_tokens = 0; }, ErrorCode::kInvalidArgument, {"max_tokens"});
}
