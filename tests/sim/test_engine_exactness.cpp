// Bit equality of text and logprobs through the whole engine with real (tiny) models: alone, in a batch, chunked,
// preempted, after prefix hits, with every drafter, at one and two ranks (engine/README.md, exactness). And the seams
// around the real executor: NaN isolation, the fake device's plan log, replay, no allocation in a step.
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include "engine/parallel/local_comm.h"
#include "engine/run/engine.h"
#include "engine/run/fake_executor.h"
#include "engine/run/model_executor.h"
#include "engine/run/replay.h"
#include "engine/spec/ngram_drafter.h"
#include "engine/spec/oracle_drafter.h"
#include "engine/spec/random_drafter.h"
#include "kernels/ops_decorators.h"
#include "tests/model/model_runner.h"
#include "tests/model/tiny_model.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

struct Text {
  std::vector<int32_t> tokens;  // with the stop id that ended it
  std::vector<float> logprobs;
  FinishReason finish = FinishReason::kNone;
  bool operator==(const Text&) const = default;
};
using Texts = std::map<std::pair<size_t, int32_t>, Text>;  // (request, choice)

using DrafterMaker = std::function<std::unique_ptr<Drafter>()>;

struct Setup {
  int32_t slots = 1;
  int32_t rows = 128;
  int32_t blocks = 100;
  int32_t drafts = 0;
  bool prefix_caching = false;
  int32_t ranks = 1;
  int32_t rounds = 1;  // the same requests again, one after another round
  DrafterMaker drafter{};
  std::map<int64_t, FaultKind> faults{};
};

struct Outcome {
  Texts texts;
  EngineStats stats;
  std::vector<std::string> log;
  std::vector<StepResult> results;  // of each plan of the log
  int64_t allocations = 0;
};

/// FaultyOps that owns what it breaks.
struct OwnedOps {
  OwnedOps(std::unique_ptr<Ops> inner, std::map<int64_t, FaultKind> faults)
      : owned(std::move(inner)), faulty(*owned, std::move(faults)) {}
  std::unique_ptr<Ops> owned;
  FaultyOps faulty;
};
class OwningFaultyOps final : private OwnedOps, public ForwardingOps {
 public:
  OwningFaultyOps(std::unique_ptr<Ops> inner, std::map<int64_t, FaultKind> faults)
      : OwnedOps(std::move(inner), std::move(faults)), ForwardingOps(static_cast<Ops&>(faulty)) {}
};

class TinyEngine {
 public:
  explicit TinyEngine(const std::string& name)
      : golden_(read_golden(name)), file_(tiny_safetensors(golden_, DType::kBF16)) {
    auto config = read_model_config(file_);
    REQUIRE(config.ok());
    config_ = std::move(config).value();
  }

  const ModelConfig& config() const { return config_; }
  Checkpoint& file() { return file_; }
  std::vector<int32_t> prompt(size_t tokens, int32_t start) const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < tokens; ++i)
      ids.push_back(static_cast<int32_t>((static_cast<size_t>(start) + i * i * 7 + i) % static_cast<size_t>(config_.vocab)));
    return ids;
  }

  EngineLimits limits_of(const Setup& setup) {
    EngineLimits limits;
    limits.max_num_seqs = setup.slots;
    limits.max_batched_tokens = setup.rows;
    limits.max_queued_requests = 1000;
    limits.context_length = config_.context_length;
    limits.vocab = config_.vocab;
    limits.num_blocks = setup.blocks;
    limits.prefix_caching = setup.prefix_caching;
    limits.step_budget = std::chrono::milliseconds(0);
    limits.max_draft_tokens = setup.drafts;
    limits.cache_groups = groups_;
    return limits;
  }

  std::unique_ptr<ModelExecutor> make_rank(const Setup& setup, int32_t rank, Communicator* comm, Ops** ops_out) {
    RankParts parts;
    parts.ops = make_cpu_ops({.threads = 1, .isa = ""});
    if (!setup.faults.empty()) parts.ops = std::make_unique<OwningFaultyOps>(std::move(parts.ops), setup.faults);
    if (comm != nullptr) parts.ops->set_comm(comm);
    LoadOptions load;
    load.max_rows = setup.rows;
    load.max_logit_rows = setup.slots * (1 + setup.drafts);
    load.rank = rank;
    load.ranks = setup.ranks;
    auto model = load_model(file_, config_, *parts.ops, load);
    if (!model.ok()) FAIL(model.error().message);
    parts.model = std::move(model).value();
    KvCacheShape shape;
    shape.groups = parts.model->cache_groups();
    groups_ = static_cast<int32_t>(shape.groups.size());
    shape.blocks.assign(shape.groups.size(), setup.blocks);
    auto kv = KvCache::create(*parts.ops, shape);
    REQUIRE(kv.ok());
    parts.kv = std::move(kv).value();
    if (setup.drafter) parts.drafter = setup.drafter();
    parts.ops->warm_up(setup.rows);
    if (ops_out != nullptr) *ops_out = parts.ops.get();
    return std::make_unique<ModelExecutor>(
        std::move(parts), DeviceShape{setup.slots, groups_, shape.block_tokens, setup.rows, setup.drafts});
  }

  Outcome run(const Setup& setup, const std::vector<std::shared_ptr<Request>>& templates) {
    auto comms = setup.ranks > 1 ? make_local_comms(setup.ranks) : std::vector<std::unique_ptr<Communicator>>(1);
    std::vector<std::unique_ptr<StepExecutor>> ranks;
    Ops* ops = nullptr;
    for (int32_t rank = 0; rank < setup.ranks; ++rank)
      ranks.push_back(make_rank(setup, rank, comms[static_cast<size_t>(rank)].get(), rank == 0 ? &ops : nullptr));
    Outcome outcome;
    drive(setup, std::move(ranks), templates, &outcome, [&] { outcome.allocations = ops->allocations_after_warm_up(); });
    return outcome;
  }

  /// Any executors behind a real Engine. All requests are there before the first plan of a round.
  void drive(const Setup& setup, std::vector<std::unique_ptr<StepExecutor>> ranks,
             const std::vector<std::shared_ptr<Request>>& templates, Outcome* outcome, const std::function<void()>& done) {
    EngineHooks hooks;
    hooks.plan_log = [&](const StepPlan& plan) { outcome->log.push_back(to_json(plan)); };
    hooks.step_done = [&](const StepPlan&, const StepResult& result, double) { outcome->results.push_back(result); };
    Engine engine(limits_of(setup), std::move(ranks), hooks);
    for (int32_t round = 0; round < setup.rounds; ++round) {
      std::vector<std::shared_ptr<Request>> requests;
      for (const auto& from : templates) requests.push_back(copy_of(*from));
      for (const auto& request : requests) REQUIRE(engine.submit(request).ok());
      if (round == 0) engine.start();
      for (size_t i = 0; i < requests.size(); ++i) read(*requests[i], i, &outcome->texts, round > 0);
    }
    REQUIRE(engine.drain(std::chrono::seconds(60)));
    outcome->stats = engine.stats();
    done();
  }

 private:
  static std::shared_ptr<Request> copy_of(const Request& from) {
    auto request = std::make_shared<Request>();
    request->prompt = from.prompt;
    request->sampling = from.sampling;
    request->n = from.n;
    request->output = std::make_shared<OutputChannel>(10000);
    return request;
  }

  static void read(const Request& request, size_t index, Texts* texts, bool again) {
    Texts got;
    for (int32_t open = request.n; open > 0;) {
      auto event = request.output->pop(std::chrono::seconds(60));
      REQUIRE(event.has_value());
      Text& text = got[{index, event->choice}];
      text.tokens.insert(text.tokens.end(), event->tokens.begin(), event->tokens.end());
      for (const TokenLogprob& one : event->logprobs) {
        text.logprobs.push_back(one.logprob);
        for (const auto& [id, logprob] : one.top) text.logprobs.push_back(logprob + static_cast<float>(id));
      }
      if (event->finish == FinishReason::kNone) continue;
      if (event->stop_id >= 0) text.tokens.push_back(event->stop_id);
      text.finish = event->finish;
      --open;
    }
    for (auto& [key, text] : got) {
      if (again)
        REQUIRE(texts->at(key) == text);
      else
        (*texts)[key] = std::move(text);
    }
  }

  Golden golden_;
  MemoryCheckpoint file_;
  ModelConfig config_;
  int32_t groups_ = 1;
};

std::vector<std::shared_ptr<Request>> mixed_requests(const TinyEngine& engine) {
  std::vector<std::shared_ptr<Request>> all;
  for (size_t i = 0; i < 8; ++i) {
    auto request = std::make_shared<Request>();
    request->prompt = engine.prompt(i % 3 == 0 ? 70 + i : 5 + 11 * i, i % 2 == 0 ? 3 : static_cast<int32_t>(40 * i));
    SamplingParams& sampling = request->sampling;
    sampling.max_tokens = 24 + static_cast<int32_t>(i) * 3;
    sampling.seed = 1000 + i;
    sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    if (i % 4 == 1) sampling.top_p = 0.9f;
    if (i % 4 == 3) sampling.top_k = 20;
    if (i == 3 || i == 4) {
      sampling.presence_penalty = 0.5f;
      sampling.frequency_penalty = 0.3f;
      sampling.repetition_penalty = 1.2f;
    }
    if (i == 5) {
      for (int32_t id = 0; id < 60; ++id) sampling.stop_ids.push_back(id);
      sampling.min_tokens = 6;
    }
    if (i % 3 == 2) sampling.top_logprobs = 3;
    if (i == 7) request->n = 3;
    all.push_back(std::move(request));
  }
  return all;
}

void require_same(const Texts& got, const Texts& alone, const char* how) {
  REQUIRE(got.size() == alone.size());
  for (const auto& [key, text] : alone) {
    INFO(how << ", request " << key.first << " choice " << key.second);
    REQUIRE(got.at(key).tokens == text.tokens);
    REQUIRE(got.at(key) == text);
  }
}

/// Each request in an engine of its own.
Texts alone_texts(TinyEngine& engine, const std::vector<std::shared_ptr<Request>>& requests) {
  Texts alone;
  for (size_t i = 0; i < requests.size(); ++i)
    for (auto& [key, text] : engine.run({}, {requests[i]}).texts) alone[{i, key.second}] = text;
  return alone;
}

/// The tokens that were generated alone after this history, or -1.
OracleDrafter::Future future_of(const std::vector<std::shared_ptr<Request>>& requests, const Texts& alone) {
  return [&requests, &alone](std::span<const int32_t> history) {
    for (const auto& [key, text] : alone) {
      std::vector<int32_t> whole = requests[key.first]->prompt;
      whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
      if (history.size() < whole.size() && std::equal(history.begin(), history.end(), whole.begin()))
        return whole[history.size()];
    }
    return -1;
  };
}

}  // namespace

TEST_CASE("the engine's greedy text is the argmax of the plain model") {
  for (const char* name : {"llama-tied", "qwen3", "qwen2-upper-window"}) {
    INFO(name);
    TinyEngine engine(name);
    auto request = std::make_shared<Request>();
    request->prompt = engine.prompt(45, 9);
    request->sampling.temperature = 0;
    request->sampling.max_tokens = 20;
    const Text text = engine.run({.rows = 16}, {request}).texts.at({0, 0});
    RunnerOptions options{.backend = "cpu", .isa = "", .cache_dtype = DType::kBF16};
    auto runner = ModelRunner::make(engine.file(), engine.config(), options);
    REQUIRE(runner.ok());
    std::vector<int32_t> ids = request->prompt;
    for (int32_t i = 0; i < 20; ++i) {
      const std::vector<int32_t> last{static_cast<int32_t>(ids.size()) - 1};
      const std::vector<float> logits = (*runner)->run(ids, last);
      ids.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      REQUIRE(text.tokens[static_cast<size_t>(i)] == ids.back());
    }
    REQUIRE(text.tokens.size() == 20);
  }
}

TEST_CASE("the text is the same however it is computed") {
  int32_t two_rank_models = 0;
  for (const char* name : {"qwen3", "qwen2-upper-window"}) {
    INFO(name);
    TinyEngine engine(name);
    const auto requests = mixed_requests(engine);
    const Texts alone = alone_texts(engine, requests);
    REQUIRE(alone.size() == 10);
    REQUIRE(alone.at({7, 0}).tokens != alone.at({7, 1}).tokens);  // choices draw their own noise
    REQUIRE(alone.at({5, 0}).finish == FinishReason::kStop);
    REQUIRE(alone.at({5, 0}).tokens.size() > 6);

    const Outcome batch = engine.run({.slots = 6, .rows = 200}, requests);
    require_same(batch.texts, alone, "batch");
    REQUIRE(batch.allocations == 0);

    require_same(engine.run({.slots = 3, .rows = 9}, requests).texts, alone, "chunks of at most nine rows");

    const Outcome preempted = engine.run({.slots = 4, .rows = 64, .blocks = 9}, requests);
    require_same(preempted.texts, alone, "preempted");
    REQUIRE(preempted.stats.preemptions > 0);

    const Outcome hits = engine.run({.slots = 4, .rows = 64, .prefix_caching = true, .rounds = 2}, requests);
    require_same(hits.texts, alone, "prefix hits");
    REQUIRE(hits.stats.prefix_hit_tokens > 300);

    const Outcome ngram = engine.run(
        {.slots = 4, .rows = 64, .drafts = 4, .drafter = [] { return std::make_unique<NgramDrafter>(1, 3); }}, requests);
    require_same(ngram.texts, alone, "n-gram drafts");
    REQUIRE(ngram.stats.draft_tokens > 20);

    const auto oracle = [&] {
      return std::make_unique<OracleDrafter>(future_of(requests, alone), [](int32_t p) { return p % 5 == 0; },
                                             engine.config().vocab);
    };
    const Outcome told = engine.run({.slots = 4, .rows = 64, .drafts = 5, .drafter = oracle}, requests);
    require_same(told.texts, alone, "oracle drafts");
    REQUIRE(told.stats.accepted_tokens > 100);
    REQUIRE(told.stats.draft_tokens > told.stats.accepted_tokens);
    REQUIRE(told.stats.steps < batch.stats.steps);

    const auto noise = [&] { return std::make_unique<RandomDrafter>(3, engine.config().vocab); };
    const Outcome random = engine.run(
        {.slots = 3, .rows = 40, .blocks = 9, .drafts = 3, .prefix_caching = true, .rounds = 2, .drafter = noise}, requests);
    require_same(random.texts, alone, "random drafts, preemption and prefix hits");
    REQUIRE(random.stats.preemptions > 0);

    if (engine.config().ffn % 64 != 0) continue;  // two ranks need an even number of shards
    const Outcome ranks = engine.run({.slots = 4, .rows = 64, .drafts = 5, .ranks = 2, .drafter = oracle}, requests);
    require_same(ranks.texts, alone, "two ranks with drafts");
    REQUIRE(ranks.log == told.log);
    ++two_rank_models;
  }
  REQUIRE(two_rank_models == 1);
}

TEST_CASE("a NaN in one row ends that sequence only") {
  TinyEngine engine("qwen3");
  std::vector<std::shared_ptr<Request>> requests = mixed_requests(engine);
  requests.resize(5);
  const Texts alone = alone_texts(engine, requests);
  int32_t hit = 0;
  for (const int64_t call : {40, 200, 333, 471}) {
    INFO("call " << call);
    const Outcome outcome = engine.run({.slots = 5, .rows = 200, .faults = {{call, FaultKind::kNan}}}, requests);
    int32_t failed = 0;
    for (const auto& [key, text] : alone) {
      const Text& got = outcome.texts.at(key);
      if (got.finish == FinishReason::kError) {
        ++failed;
        REQUIRE(got.tokens.size() < text.tokens.size());
        REQUIRE(std::equal(got.tokens.begin(), got.tokens.end(), text.tokens.begin()));
      } else {
        REQUIRE(got == text);
      }
    }
    REQUIRE(failed <= 1);
    REQUIRE(outcome.stats.non_finite_rows == failed);
    REQUIRE(outcome.stats.blocks_used == 0);
    hit += failed;
  }
  REQUIRE(hit >= 2);  // an op whose first value nobody reads may swallow it
}

TEST_CASE("the fake device gives the CPU backend's plan log, and the log replays to the same tokens") {
  TinyEngine engine("qwen3");
  const auto requests = mixed_requests(engine);
  const Setup setup{.slots = 3, .rows = 40, .blocks = 9, .drafts = 3, .prefix_caching = true,
                    .drafter = [] { return std::make_unique<NgramDrafter>(1, 3); }};
  const Outcome real = engine.run(setup, requests);
  REQUIRE(real.log.size() > 40);

  FakeDevice device;
  device.shape = {setup.slots, 1, 32, setup.rows, setup.drafts};
  device.blocks = setup.blocks;
  device.step_delay = std::chrono::microseconds(300);
  device.drafter = std::make_shared<NgramDrafter>(1, 3);
  device.law = [&](std::span<const int32_t> history, uint64_t seed, int32_t choice) {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i]->sampling.seed != seed) continue;
      const size_t index = history.size() - requests[i]->prompt.size();
      const auto& tokens = real.texts.at({i, choice}).tokens;
      return index < tokens.size() ? tokens[index] : 0;
    }
    return 0;
  };
  std::vector<std::unique_ptr<StepExecutor>> ranks;
  ranks.push_back(std::make_unique<FakeExecutor>(device));
  Outcome fake;
  engine.drive(setup, std::move(ranks), requests, &fake, [] {});
  REQUIRE(fake.log.size() == real.log.size());
  for (size_t i = 0; i < real.log.size(); ++i) {
    INFO("plan " << i);
    REQUIRE(fake.log[i] == real.log[i]);
  }

  std::stringstream lines;
  for (const std::string& line : real.log) lines << line << '\n';
  const auto again = replay(lines, *engine.make_rank(setup, 0, nullptr, nullptr));
  REQUIRE(again.ok());
  REQUIRE(real.results.size() == real.log.size());
  REQUIRE(again->size() == real.results.size());
  REQUIRE(real.stats.preemptions > 0);
  REQUIRE(real.stats.accepted_tokens > 0);
  int64_t emitted = 0, logprobs = 0;
  for (size_t i = 0; i < real.results.size(); ++i) {
    INFO("plan " << i);
    const StepResult &first = real.results[i], &second = (*again)[i];
    REQUIRE(second.step == first.step);
    REQUIRE(second.digest == first.digest);
    REQUIRE(second.spans.size() == first.spans.size());
    for (size_t s = 0; s < first.spans.size(); ++s) {
      const SpanResult &a = first.spans[s], &b = second.spans[s];
      REQUIRE((b.slot == a.slot && b.generation == a.generation));
      REQUIRE(b.emitted == a.emitted);
      REQUIRE((b.drafted == a.drafted && b.accepted == a.accepted && b.done == a.done));
      REQUIRE(b.logprobs.size() == a.logprobs.size());
      for (size_t l = 0; l < a.logprobs.size(); ++l) {
        REQUIRE(b.logprobs[l].logprob == a.logprobs[l].logprob);
        REQUIRE(b.logprobs[l].top == a.logprobs[l].top);
      }
      emitted += std::ssize(a.emitted);
      logprobs += std::ssize(a.logprobs);
    }
  }
  // the log holds the whole run: every token that a client got is in it
  int64_t generated = 0;
  for (const auto& [key, text] : real.texts) generated += std::ssize(text.tokens);
  REQUIRE(generated > 200);
  REQUIRE(emitted == generated);
  REQUIRE(logprobs > 20);
}

TEST_CASE("one prompt's greedy text is the same beside any others") {
  // C25 of the reliability goals. SLIP_BATCHES sets how many random batches (default 50).
  const char* wanted = std::getenv("SLIP_BATCHES");
  const int32_t batches = wanted == nullptr ? 50 : std::atoi(wanted);
  TinyEngine engine("qwen3");
  auto probe = std::make_shared<Request>();
  probe->prompt = engine.prompt(75, 11);
  probe->sampling.temperature = 0;
  probe->sampling.max_tokens = 24;
  probe->sampling.top_logprobs = 2;
  const Text alone = engine.run({}, {probe}).texts.at({0, 0});
  REQUIRE(alone.tokens.size() == 24);
  std::mt19937 random(25);
  const auto pick = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random); };
  int64_t preemptions = 0, hit_tokens = 0, chunked = 0, drafts = 0;
  for (int32_t batch = 0; batch < batches; ++batch) {
    INFO("batch " << batch);
    Setup setup;
    setup.slots = pick(2, 6);
    setup.rows = pick(setup.slots + 1, 120);
    setup.blocks = pick(0, 1) == 0 ? pick(6, 8) : 60;
    setup.prefix_caching = pick(0, 1) == 0;
    setup.rounds = setup.prefix_caching ? 2 : 1;
    if (pick(0, 1) == 0) {
      setup.drafts = pick(1, 4);
      setup.rows = std::max(setup.rows, setup.slots * 2);
      setup.drafter = [] { return std::make_unique<NgramDrafter>(1, 3); };
    }
    std::vector<std::shared_ptr<Request>> requests;
    const int32_t others = pick(1, 6), place = pick(0, others);
    for (int32_t i = 0; i <= others; ++i) {
      if (i == place) {
        requests.push_back(probe);
        continue;
      }
      auto other = std::make_shared<Request>();
      // some begin as the probe does
      other->prompt = pick(0, 2) == 0 ? engine.prompt(static_cast<size_t>(pick(33, 90)), 11)
                                      : engine.prompt(static_cast<size_t>(pick(1, 90)), pick(0, 200));
      other->sampling.temperature = pick(0, 1) == 0 ? 0.0f : 1.0f;
      other->sampling.seed = static_cast<uint64_t>(pick(0, 1000));
      other->sampling.max_tokens = pick(1, 60);
      requests.push_back(std::move(other));
    }
    const Outcome outcome = engine.run(setup, requests);
    REQUIRE(outcome.texts.at({static_cast<size_t>(place), 0}) == alone);
    preemptions += outcome.stats.preemptions;
    hit_tokens += outcome.stats.prefix_hit_tokens;
    chunked += setup.rows < 75;
    drafts += outcome.stats.accepted_tokens;
  }
  if (batches < 50) return;
  REQUIRE(preemptions > 10);
  REQUIRE(hit_tokens > 500);
  REQUIRE(chunked > 10);
  REQUIRE(drafts > 20);
}
