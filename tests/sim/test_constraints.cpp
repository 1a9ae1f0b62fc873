// Random logits under random constraints through scheduler, loop, masks, sampler and verification, from one seed each: every text
// must be the one that plain decoding gives, computed here token by token with the sampling oracle and the constraint walked from
// its start. SLIP_SIM_SEEDS sets how many seeds (default 400), SLIP_SIM_FIRST the first.
#include <optional>
#include <sstream>

#include "engine/run/replay.h"
#include "engine/run/worker_group.h"
#include "engine/sample/after_reasoning.h"
#include "engine/sample/all_of.h"
#include "engine/sample/allowed_tokens.h"
#include "engine/sample/reasoning_budget.h"
#include "engine/spec/ngram_drafter.h"
#include "engine/spec/oracle_drafter.h"
#include "engine/spec/random_drafter.h"
#include "kernels/sample_kernels.h"
#include "tests/sim/automaton_constraint.h"
#include "tests/sim/simulation.h"
#include "tests/catch.h"  // last: its CHECK replaces ours

using namespace slipstream;
using namespace slipstream::sim;

namespace {

constexpr int32_t kVocab = 75, kEnd = 74;
using Ids = std::vector<int32_t>;

/// Noise, and a bonus for one token, so that text repeats itself and drafters are right at times.
void fill_logits(std::span<const int32_t> history, std::span<float> logits) {
  static const TokenLaw law = hash_token_law(kVocab);
  uint64_t state = static_cast<uint64_t>(history.size());
  for (const int32_t token : history) state = state * 0x5851f42d4c957f2dull + static_cast<uint64_t>(token) + 1;
  for (float& logit : logits) {
    state = state * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
    logit = static_cast<float>(state >> 40) * 0x1p-22f;  // [0, 4)
  }
  logits[static_cast<size_t>(law(history, 1, 0))] += 5;
}

struct Plain {
  Ids tokens;
  FinishReason finish = FinishReason::kLength;
  int32_t stop_id = -1;
};

/// What one choice may say, as a function of all its tokens: an automaton, alone or behind reasoning of at most `budget` tokens.
struct Law {
  std::shared_ptr<const AutomatonSpec> spec;
  bool reasons = false;
  int32_t budget = 0;
  const Ids end{20, 21, 20};  // of the reasoning

  /// The tokens that the automaton has seen; none while the choice reasons.
  std::optional<std::span<const int32_t>> response(std::span<const int32_t> tokens) const {
    if (!reasons) return tokens;
    const auto found = std::search(tokens.begin(), tokens.end(), end.begin(), end.end());
    if (found == tokens.end()) return std::nullopt;
    return tokens.subspan(static_cast<size_t>(found - tokens.begin()) + end.size());
  }
  Automaton::Kind kind(std::span<const int32_t> tokens) const {
    const auto said = response(tokens);
    if (said) return spec->automaton().kind(spec->automaton().walk(*said));
    return static_cast<int32_t>(tokens.size()) >= budget ? Automaton::Kind::kForced : Automaton::Kind::kFree;
  }
  bool allows(std::span<const int32_t> tokens, int32_t token) const {
    if (const auto said = response(tokens)) return spec->automaton().allows(spec->automaton().walk(*said), token);
    if (static_cast<int32_t>(tokens.size()) < budget) return true;
    // What the last tokens have of the end already.
    size_t have = std::min(end.size() - 1, tokens.size());
    while (have > 0 && !std::equal(end.begin(), end.begin() + static_cast<int64_t>(have), tokens.end() - static_cast<int64_t>(have))) --have;
    return token == end[have];
  }
  std::shared_ptr<const ConstraintSpec> constraint() const {
    if (!reasons) return spec;
    return all_of({std::make_shared<const ReasoningBudget>(ReasoningBudget::Rules{budget, {}, end, true}),
                   std::make_shared<const AfterReasoning>(spec, AfterReasoning::Rules{AfterReasoning::Begin::kInside, -1, end})});
  }
};

std::vector<uint32_t> allowed_mask(const Law& law, std::span<const int32_t> tokens, const Request& request, bool early) {
  const auto make = [&](bool stops) {
    std::vector<uint32_t> mask((kVocab + 31) / 32, 0);
    for (int32_t token = 0; token < kVocab; ++token) {
      const bool stop = std::ranges::find(request.sampling.stop_ids, token) != request.sampling.stop_ids.end();
      if (law.allows(tokens, token) && (stops || !stop)) mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
    }
    return mask;
  };
  const auto strict = make(!early);
  return std::ranges::any_of(strict, [](uint32_t word) { return word != 0; }) ? strict : make(true);
}

/// Plain decoding by the oracle. Without a constraint its mask allows everything.
Plain plain_text(const Request& request, const Law* law, int32_t choice) {
  Plain plain;
  const SamplingParams& sampling = request.sampling;
  Ids history = request.prompt;
  std::vector<float> logits(kVocab);
  for (int32_t i = 0; i < sampling.max_tokens; ++i) {
    const Automaton::Kind kind = law == nullptr ? Automaton::Kind::kFree : law->kind(plain.tokens);
    const bool over = kind == Automaton::Kind::kOver;
    if (over || kind == Automaton::Kind::kDead) {
      plain.finish = over ? FinishReason::kStop : FinishReason::kError;
      return plain;
    }
    fill_logits(history, logits);
    SampleRow row;
    row.temperature = sampling.temperature;
    row.top_p = sampling.top_p;
    row.top_k = sampling.top_k;
    row.repetition_penalty = sampling.repetition_penalty;
    row.presence_penalty = sampling.presence_penalty;
    row.seed = sampling.seed;
    row.choice = choice;
    row.position = static_cast<int32_t>(history.size());
    row.bias = sampling.logit_bias;
    row.prompt_tokens = request.prompt;
    row.output_tokens = plain.tokens;
    std::vector<uint32_t> mask;
    if (law != nullptr) {
      mask = allowed_mask(*law, plain.tokens, request, i < sampling.min_tokens);
      row.mask = mask.data();
    } else if (i < sampling.min_tokens) {
      row.suppressed = sampling.stop_ids;
    }
    SampledToken drawn;
    reference_sample({logits.data(), 1, kVocab, &row, &drawn});
    REQUIRE(drawn.token >= 0);
    if (std::ranges::find(sampling.stop_ids, drawn.token) != sampling.stop_ids.end()) {
      plain.finish = FinishReason::kStop;
      plain.stop_id = drawn.token;
      return plain;
    }
    plain.tokens.push_back(drawn.token);
    history.push_back(drawn.token);
  }
  if (law != nullptr && law->kind(plain.tokens) == Automaton::Kind::kOver) plain.finish = FinishReason::kStop;
  return plain;
}

struct Load {
  std::shared_ptr<Request> request;
  std::optional<Law> law;                     // none: no constraint
  std::vector<Plain> plain;                   // of each choice
  std::vector<Received> got;
  int32_t submit_turn = 0, cancel_turn = -1;
};

struct Totals {
  EngineStats stats;
  int64_t over = 0, stops = 0, lengths = 0, dead_ends = 0, cancelled = 0, non_finite = 0, preempted = 0, starved = 0;
  int64_t unconstrained = 0, answered = 0, overruled = 0;
};

class Scenario {
 public:
  explicit Scenario(uint64_t seed) : random_(seed) {
    limits_.max_num_seqs = pick(1, 5);
    limits_.max_draft_tokens = chance(0.6) ? pick(1, 6) : 0;
    limits_.draft_mode = chance(0.4) ? DraftMode::kAdaptive : DraftMode::kFixed;
    limits_.max_supplied_drafts = chance(0.7) ? pick(1, 20) : 0;
    limits_.max_batched_tokens = limits_.max_num_seqs + pick(1, 60);
    limits_.block_tokens = pick(1, 3) * 4;
    limits_.num_blocks = pick(10, 40);
    limits_.context_length = 100;
    limits_.vocab = kVocab;
    limits_.prefix_caching = chance(0.8);
    limits_.step_budget = std::chrono::milliseconds(0);
    device_.shape = {limits_.max_num_seqs, 1, limits_.block_tokens, limits_.max_batched_tokens, limits_.max_draft_tokens,
                     limits_.max_supplied_drafts};
    device_.blocks = limits_.num_blocks;
    device_.vocab = kVocab;
    device_.logits = fill_logits;
    device_.simulated = &clock_;
    device_.step_delay = std::chrono::microseconds(100);
    device_.row_delay = std::chrono::microseconds(pick(5, 200));
    device_.faults = std::make_shared<FaultSchedule>();
    if (chance(0.3))
      for (int i = 0; i < 8; ++i) device_.faults->fire_at("starve", pick(1, 150));
    if (chance(0.1)) device_.faults->fire_at("nan_row", pick(1, 200));
    for (int32_t i = pick(2, 10); i > 0; --i) add_load(static_cast<int32_t>(loads_.size()));
    choose_drafter();
  }

  void run(Totals* totals) {
    FakeExecutor device(device_);
    InlineRanks ranks(&device, &clock_);
    EngineHooks hooks;
    hooks.step_done = [&](const StepPlan& plan, const StepResult& result, double) {
      for (size_t s = 0; s < plan.spans.size(); ++s) {
        totals->starved += result.spans[s].starved;
        if (plan.spans[s].constrained) REQUIRE(plan.commit == CommitVariant::kFull);
      }
      REQUIRE(plan.total_rows <= limits_.max_batched_tokens);
    };
    Scheduler scheduler(limits_, &clock_, {});
    StepLoop loop(&scheduler, &ranks, &hooks, {});
    for (int32_t turn = 0; turn < 20000; ++turn) {
      bool more = false;
      for (Load& load : loads_) {
        if (turn == load.submit_turn) {
          REQUIRE(check_request(*load.request, limits_).ok());
          scheduler.add(load.request);
        }
        if (load.cancel_turn >= 0 && turn == load.submit_turn + load.cancel_turn) load.request->cancelled = true;
        more = more || turn < load.submit_turn;
      }
      loop.turn();
      std::string broken;
      if (!scheduler.check(&broken)) FAIL(broken);
      clock_.advance(std::chrono::microseconds(10));
      if (!more && scheduler.idle()) break;
    }
    REQUIRE(scheduler.idle());
    REQUIRE(device.foreign_reads() == 0);
    EngineStats stats;
    scheduler.fill(&stats);
    totals->stats.masked_rows += stats.masked_rows;
    totals->stats.forced_drafts += stats.forced_drafts;
    totals->stats.forced_accepted += stats.forced_accepted;
    totals->stats.constraint_dead_ends += stats.constraint_dead_ends;
    totals->stats.accepted_tokens += stats.accepted_tokens;
    totals->stats.draft_tokens += stats.draft_tokens;
    totals->stats.preemptions += stats.preemptions;
    totals->stats.generated_tokens += stats.generated_tokens;
    totals->stats.steps += stats.steps;
    int64_t delivered = 0;
    for (Load& load : loads_) {
      receive(*load.request->output, &load.got);
      for (int32_t choice = 0; choice < load.request->n; ++choice) judge(load, choice, totals, &delivered);
    }
    REQUIRE(stats.generated_tokens == delivered);
  }

 private:
  int32_t pick(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  void add_load(int32_t index) {
    Load load;
    load.request = std::make_shared<Request>();
    Request& request = *load.request;
    request.id = "r" + std::to_string(index);
    for (int32_t t = pick(1, 25); t > 0; --t) request.prompt.push_back((t * 31 + 5 * (index % 3)) % kVocab);
    request.n = chance(0.2) ? 3 : 1;
    SamplingParams& sampling = request.sampling;
    sampling.max_tokens = std::min(pick(1, 45), std::min(limits_.context_length, limits_.num_blocks * limits_.block_tokens) - request_length(request));
    sampling.temperature = chance(0.5) ? 0.0f : 0.8f;
    sampling.seed = static_cast<uint64_t>(pick(0, 1000));
    if (chance(0.2)) sampling.top_k = pick(1, 8);
    if (chance(0.2)) sampling.top_p = 0.8f;
    if (chance(0.2)) sampling.repetition_penalty = 1.3f;
    if (chance(0.2)) sampling.presence_penalty = 0.7f;
    if (chance(0.2)) sampling.logit_bias = {{pick(0, kVocab - 1), 2.5f}};
    sampling.top_logprobs = chance(0.2) ? 1 : -1;
    if (chance(0.8)) sampling.stop_ids.push_back(kEnd);  // otherwise the end token is text, as with ignore_eos
    if (chance(0.3)) sampling.stop_ids.push_back(pick(0, kVocab - 2));
    sampling.min_tokens = chance(0.3) ? pick(1, sampling.max_tokens) : 0;
    request.speculate = chance(0.8);
    request.output = std::make_shared<OutputChannel>(10000);
    if (chance(0.8)) {
      const auto spec = std::make_shared<const AutomatonSpec>(Automaton::Shape{random_() % 1000, kVocab, kEnd, chance(0.7), chance(0.3)});
      load.law.emplace(Law{spec, chance(0.3), pick(0, 12)});
      request.constraint = load.law->constraint();
    }
    for (int32_t choice = 0; choice < request.n; ++choice)
      load.plain.push_back(plain_text(request, load.law ? &*load.law : nullptr, choice));
    load.got.resize(static_cast<size_t>(request.n));
    load.submit_turn = pick(0, 30);
    if (chance(0.15)) load.cancel_turn = pick(0, 30);
    loads_.push_back(std::move(load));
  }
  static int32_t request_length(const Request& request) { return static_cast<int32_t>(request.prompt.size()); }

  void choose_drafter() {
    if (limits_.max_draft_tokens == 0) return;
    switch (pick(0, 3)) {
      case 0: device_.drafter = std::make_shared<NgramDrafter>(1, 3); break;
      case 1: device_.drafter = std::make_shared<RandomDrafter>(7, kVocab); break;
      case 2:
        device_.drafter = std::make_shared<OracleDrafter>([this](std::span<const int32_t> history) { return future(history); },
                                                          [](int32_t position) { return position % 7 == 3; }, kVocab);
        break;
      default: break;  // verify spans without a drafter: rows are an upper bound
    }
  }

  /// What some text of the load says next; its stop id at the end.
  int32_t future(std::span<const int32_t> history) const {
    for (const Load& load : loads_)
      for (const Plain& plain : load.plain) {
        Ids text = load.request->prompt;
        text.insert(text.end(), plain.tokens.begin(), plain.tokens.end());
        if (plain.stop_id >= 0) text.push_back(plain.stop_id);
        text.push_back(5);  // behind the end, where nothing may be drawn
        if (history.size() < text.size() && std::equal(history.begin(), history.end(), text.begin())) return text[history.size()];
      }
    return -1;
  }

  void judge(const Load& load, int32_t choice, Totals* totals, int64_t* delivered) {
    const Request& request = *load.request;
    const Received& got = load.got[static_cast<size_t>(choice)];
    const Plain& plain = load.plain[static_cast<size_t>(choice)];
    INFO("request " << request.id << " choice " << choice);
    REQUIRE(got.ends == 1);
    REQUIRE(got.late_events == 0);
    *delivered += static_cast<int64_t>(got.tokens.size()) + (got.stop_id >= 0);
    if (request.sampling.top_logprobs >= 0) REQUIRE(got.logprobs == got.tokens.size());
    if (!load.law)
      ++totals->unconstrained;
    else
      for (size_t i = 0; i < got.tokens.size(); ++i) REQUIRE(load.law->allows(std::span(got.tokens).first(i), got.tokens[i]));
    totals->answered += load.law && load.law->reasons && !load.law->response(got.tokens).value_or(std::span<const int32_t>{}).empty();
    REQUIRE(is_prefix(got.tokens, plain.tokens));
    if (got.finish == FinishReason::kCancelled) {
      REQUIRE(load.cancel_turn >= 0);
      ++totals->cancelled;
      return;
    }
    if (got.error == "the model produced values that are not finite") {
      REQUIRE(device_.faults->fired("nan_row") > 0);
      ++totals->non_finite;
      return;
    }
    REQUIRE(got.tokens == plain.tokens);
    REQUIRE(got.finish == plain.finish);
    REQUIRE(got.stop_id == plain.stop_id);
    totals->over += got.finish == FinishReason::kStop && got.stop_id < 0;
    totals->stops += got.stop_id >= 0;
    totals->lengths += got.finish == FinishReason::kLength;
    totals->dead_ends += got.finish == FinishReason::kError;
    totals->overruled += got.finish == FinishReason::kStop && static_cast<int32_t>(got.tokens.size()) < request.sampling.min_tokens;
    if (got.finish == FinishReason::kError)
      REQUIRE(got.error.find("follow the " + std::to_string(got.tokens.size()) + " generated") != std::string::npos);
  }

  std::mt19937_64 random_;
  SimulatedClock clock_;
  EngineLimits limits_;
  FakeDevice device_;
  std::vector<Load> loads_;
};

}  // namespace

TEST_CASE("every constrained text is the one of plain decoding, and every token of it was allowed") {
  const int64_t first = environment("SLIP_SIM_FIRST", 1), count = environment("SLIP_SIM_SEEDS", 400);
  Totals totals;
  for (int64_t seed = first; seed < first + count; ++seed) {
    INFO("seed " << seed);
    Scenario(static_cast<uint64_t>(seed)).run(&totals);
  }
  const EngineStats& stats = totals.stats;
  std::printf("constraints: %ld seeds, %ld steps, %ld tokens, %ld masked rows, %ld of %ld forced, %ld of %ld drafts, %ld preemptions, "
              "%ld starved, ends %ld over %ld stop %ld length %ld dead %ld cancel %ld non-finite, %ld overruled, %ld unconstrained, %ld behind reasoning\n",
              count, stats.steps, stats.generated_tokens, stats.masked_rows, stats.forced_accepted, stats.forced_drafts,
              stats.accepted_tokens, stats.draft_tokens, stats.preemptions, totals.starved, totals.over, totals.stops, totals.lengths,
              totals.dead_ends, totals.cancelled, totals.non_finite, totals.overruled, totals.unconstrained, totals.answered);
  REQUIRE(stats.constraint_dead_ends == totals.dead_ends);
  if (count < 300) return;
  // Not vacuous: each thing that the scenarios are about did happen.
  REQUIRE(stats.masked_rows > 10000);
  REQUIRE(stats.forced_accepted > 1000);
  REQUIRE(stats.accepted_tokens > 1000);
  REQUIRE(stats.draft_tokens - stats.accepted_tokens > 1000);
  REQUIRE(stats.preemptions > 50);
  REQUIRE(totals.starved > 100);
  REQUIRE(totals.over > 100);
  REQUIRE(totals.stops > 100);
  REQUIRE(totals.lengths > 100);
  REQUIRE(totals.dead_ends > 50);
  REQUIRE(totals.cancelled > 50);
  REQUIRE(totals.non_finite > 5);
  REQUIRE(totals.overruled > 50);
  REQUIRE(totals.unconstrained > 100);
  REQUIRE(totals.answered > 100);
}

namespace {

/// Says one fixed text, token by token, and is over behind it.
class FixedText final : public ConstraintSpec {
 public:
  explicit FixedText(Ids text) : text_(std::move(text)) {}
  std::unique_ptr<TokenConstraint> start() const override { return std::make_unique<State>(text_); }

 private:
  class State final : public TokenConstraint {
   public:
    explicit State(const Ids& text) : text_(text) {}
    bool narrow(std::span<uint32_t> mask) override {
      std::ranges::fill(mask, 0);
      mask[static_cast<size_t>(text_[at_]) / 32] |= uint32_t{1} << (text_[at_] % 32);
      return true;
    }
    void accept(int32_t) override { ++at_; }
    void rollback(int32_t tokens) override { at_ -= static_cast<size_t>(tokens); }
    void forced(int32_t limit, Ids* tokens) override {
      for (size_t i = at_; i < text_.size() && limit > 0; ++i, --limit) tokens->push_back(text_[i]);
    }
    bool ended() const override { return at_ == text_.size(); }

   private:
    const Ids text_;
    size_t at_ = 0;
  };
  const Ids text_;
};

Ids counting(int32_t length) {
  Ids ids;
  for (int32_t i = 0; i < length; ++i) ids.push_back(i * 7 % kVocab);
  return ids;
}

struct Bench {
  explicit Bench(int32_t slots, int32_t drafts, int32_t supplied, std::shared_ptr<Drafter> drafter = nullptr) {
    limits.max_num_seqs = slots;
    limits.max_batched_tokens = 64;
    limits.max_draft_tokens = drafts;
    limits.max_supplied_drafts = supplied;
    limits.context_length = 300;
    limits.vocab = kVocab;
    limits.block_tokens = 4;
    limits.num_blocks = 400;
    limits.step_budget = std::chrono::milliseconds(0);
    device.shape = {slots, 1, 4, 64, drafts, supplied};
    device.blocks = limits.num_blocks;
    device.vocab = kVocab;
    device.logits = fill_logits;
    device.simulated = &clock;
    device.drafter = std::move(drafter);
    hooks.plan_log = [this](const StepPlan& plan) { plans.push_back(plan); };
  }
  std::vector<Received> run(const std::vector<std::shared_ptr<Request>>& requests) {
    FakeExecutor executor(device);
    InlineRanks ranks(&executor, &clock);
    Scheduler scheduler(limits, &clock, {});
    StepLoop loop(&scheduler, &ranks, &hooks, {});
    for (const auto& request : requests) scheduler.add(request);
    while (!scheduler.idle()) REQUIRE(loop.turn());
    scheduler.fill(&stats);
    std::vector<Received> all;
    for (const auto& request : requests) {
      std::vector<Received> got(static_cast<size_t>(request->n));
      receive(*request->output, &got);
      all.insert(all.end(), got.begin(), got.end());
    }
    return all;
  }

  SimulatedClock clock;
  EngineLimits limits;
  FakeDevice device;
  EngineHooks hooks;
  std::vector<StepPlan> plans;
  EngineStats stats;
};

std::shared_ptr<Request> request_of(int32_t max_tokens, std::shared_ptr<const ConstraintSpec> constraint) {
  auto request = std::make_shared<Request>();
  request->prompt = {1, 2, 3};
  request->sampling.max_tokens = max_tokens;
  request->constraint = std::move(constraint);
  request->output = std::make_shared<OutputChannel>(1000);
  return request;
}

}  // namespace

TEST_CASE("a certain text takes a step for sixteen tokens, with and without a drafter") {
  const Ids text = counting(100);
  for (const int32_t drafts : {0, 4}) {
    // The random drafter is nearly always wrong, and must not be asked while the constraint knows better.
    Bench bench(2, drafts, 32, drafts > 0 ? std::make_shared<RandomDrafter>(3, kVocab) : nullptr);
    const auto got = bench.run({request_of(200, std::make_shared<FixedText>(text))});
    REQUIRE(got[0].tokens == text);
    REQUIRE(got[0].finish == FinishReason::kStop);
    REQUIRE(got[0].stop_id == -1);
    // The prompt's step gives one token, then sixteen a step: seven steps, and at most two past the end.
    REQUIRE(bench.plans.size() <= 10);
    REQUIRE(bench.stats.forced_drafts == bench.stats.forced_accepted);
    REQUIRE(bench.stats.forced_accepted >= 90);
    REQUIRE(bench.stats.generated_tokens == 100);
  }
  // Switched off by the request, by the limits, and by a budget of one token.
  Bench off(2, 0, 32);
  auto quiet = request_of(200, std::make_shared<FixedText>(text));
  quiet->speculate = false;
  REQUIRE(off.run({quiet})[0].tokens == text);
  REQUIRE(off.stats.forced_drafts == 0);
  Bench none(2, 0, 0);
  REQUIRE(none.run({request_of(200, std::make_shared<FixedText>(text))})[0].tokens == text);
  REQUIRE(none.stats.forced_drafts == 0);
  Bench one(2, 0, 32);
  const auto single = one.run({request_of(1, std::make_shared<FixedText>(text))});
  REQUIRE(single[0].tokens == Ids{text[0]});
  REQUIRE(single[0].finish == FinishReason::kLength);
}

TEST_CASE("supplied drafts of a step stay within its bound, oldest first, and every text is whole") {
  Bench bench(6, 0, 20);
  std::vector<std::shared_ptr<Request>> requests;
  for (int32_t i = 0; i < 6; ++i) requests.push_back(request_of(200, std::make_shared<FixedText>(counting(40 + i))));
  const auto got = bench.run(requests);
  for (int32_t i = 0; i < 6; ++i) REQUIRE(got[static_cast<size_t>(i)].tokens == counting(40 + i));
  size_t most = 0;
  for (const StepPlan& plan : bench.plans) {
    size_t supplied = 0;
    for (const Span& span : plan.spans) supplied += span.supplied_drafts.size();
    most = std::max(most, supplied);
  }
  REQUIRE(most == 20);
}

TEST_CASE("a choice that may say nothing ends with its own error, the others whole") {
  const Ids few{4, 5};
  Bench bench(4, 0, 8);
  const auto dead = request_of(10, std::make_shared<AllowedTokens>(Ids{}));
  dead->n = 2;
  const auto plain = request_of(10, nullptr), tight = request_of(10, std::make_shared<AllowedTokens>(few));
  const auto got = bench.run({plain, dead, tight});
  REQUIRE(got[0].tokens == plain_text(*plain, nullptr, 0).tokens);
  for (const size_t choice : {1u, 2u}) {
    REQUIRE(got[choice].tokens.empty());
    REQUIRE(got[choice].finish == FinishReason::kError);
    REQUIRE(got[choice].error.starts_with("no token may follow the 0 generated ones"));
  }
  REQUIRE(got[3].tokens.size() == 10);
  for (const int32_t token : got[3].tokens) REQUIRE((token == 4 || token == 5));
  REQUIRE(bench.stats.constraint_dead_ends == 2);
  REQUIRE(bench.stats.non_finite_rows == 0);
  REQUIRE(bench.stats.masked_rows >= 10);
}

TEST_CASE("only steps with a constrained row commit in full, and a log of them is not replayed") {
  Bench bench(2, 0, 0);
  const auto constrained = request_of(3, std::make_shared<AllowedTokens>(Ids{4, 5}));
  const auto plain = request_of(12, nullptr);
  bench.run({plain, constrained});
  std::stringstream log;
  int64_t full = 0, first_constrained = 0, line = 0;
  for (const StepPlan& plan : bench.plans) {
    ++line;
    const bool marked = std::ranges::any_of(plan.spans, [](const Span& span) { return span.constrained; });
    REQUIRE((plan.commit == CommitVariant::kFull) == marked);
    full += marked;
    if (marked && first_constrained == 0) first_constrained = line;
    log << to_json(plan) << '\n';
  }
  REQUIRE(full == 3);
  REQUIRE(line == 12);
  FakeExecutor executor(bench.device);
  const auto refused = replay(log, executor);
  REQUIRE_FALSE(refused.ok());
  REQUIRE(refused.error().message.find("line " + std::to_string(first_constrained) + ": ") != std::string::npos);
  REQUIRE(refused.error().message.find("token masks") != std::string::npos);
}

TEST_CASE("two threaded ranks that run on give constrained texts as one thread does") {
  std::vector<std::shared_ptr<Request>> requests;
  std::vector<std::shared_ptr<const AutomatonSpec>> specs;
  for (uint64_t i = 0; i < 12; ++i) {
    specs.push_back(std::make_shared<const AutomatonSpec>(Automaton::Shape{i, kVocab, kEnd, true, true}));
    requests.push_back(request_of(30, specs.back()));
    requests.back()->n = i % 4 == 0 ? 2 : 1;
    requests.back()->sampling.seed = i;
    requests.back()->sampling.stop_ids = {kEnd};
  }
  Bench bench(4, 3, 16, std::make_shared<NgramDrafter>(1, 3));
  std::vector<std::unique_ptr<StepExecutor>> ranks;
  for (int32_t rank = 0; rank < 2; ++rank) {
    FakeDevice device = bench.device;
    device.simulated = nullptr;
    device.looks_until_ready = 50;
    device.drafter = std::make_shared<NgramDrafter>(1, 3);
    ranks.push_back(std::make_unique<FakeExecutor>(std::move(device)));
  }
  Engine engine(bench.limits, std::move(ranks), {});
  for (const auto& request : requests) REQUIRE(engine.submit(request).ok());
  engine.start();
  REQUIRE(engine.drain(std::chrono::seconds(180)));
  REQUIRE(engine.stats().masked_rows > 50);
  REQUIRE(engine.stats().forced_accepted > 0);
  engine.stop();
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<Received> got(static_cast<size_t>(requests[i]->n));
    receive(*requests[i]->output, &got);
    for (int32_t choice = 0; choice < requests[i]->n; ++choice) {
      INFO("request " << i << " choice " << choice);
      const Law law{specs[i]};
      const Plain plain = plain_text(*requests[i], &law, choice);
      REQUIRE(got[static_cast<size_t>(choice)].tokens == plain.tokens);
      REQUIRE(got[static_cast<size_t>(choice)].finish == plain.finish);
    }
  }
}
