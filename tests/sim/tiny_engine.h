// A tiny model behind the real engine, on the CPU or a GPU, for tests of exactness: texts and logprobs of the same requests
// under different setups. Knows the engine's parts and no expectation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/parallel/local_comm.h"
#include "engine/run/cuda_executor.h"
#include "engine/run/engine.h"
#include "engine/run/model_executor.h"
#include "kernels/ops_decorators.h"
#include "tests/catch.h"
#include "tests/cuda/feature_level.h"
#include "tests/model/model_runner.h"
#include "tests/model/tiny_model.h"

namespace slipstream::test {

struct Text {
  std::vector<int32_t> tokens;  // with the stop id that ended it
  std::vector<float> logprobs;
  FinishReason finish = FinishReason::kNone;
  bool operator==(const Text&) const = default;
};
using Texts = std::map<std::pair<size_t, int32_t>, Text>;  // (request, choice)

using DrafterMaker = std::function<std::unique_ptr<Drafter>()>;
/// Of a drafter with weights and a context: made before warm_up, of this rank; appends its cache groups.
using ModelDrafterMaker = std::function<std::unique_ptr<Drafter>(Ops& ops, const Model& target, const LoadOptions& load,
                                                                 std::vector<CacheGroupSpec>* groups)>;

struct Setup {
  std::string backend = "cpu";  // or "cuda", deterministic, whose drafts are its own n-grams
  bool eager = false;           // cuda: no graphs
  int32_t context = 0;          // cuda: longest sequence that the slots hold; 0: the model's
  int32_t slots = 1;
  int32_t rows = 128;
  int32_t blocks = 100;
  int32_t drafts = 0;
  DraftMode draft_mode = DraftMode::kFixed;
  bool prefix_caching = false;
  int32_t ranks = 1;
  int32_t rounds = 1;  // the same requests again, one after another round
  DrafterMaker drafter{};       // cpu
  ModelDrafterMaker model_drafter{};  // cpu
  int32_t draft_block = 0;            // EngineLimits::draft_block_tokens
  int32_t supplied = 0;               // EngineLimits::max_supplied_drafts
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
  explicit TinyEngine(const std::string& name) : TinyEngine(tiny_safetensors(read_golden(name), DType::kBF16)) {}
  explicit TinyEngine(MemoryCheckpoint file) : file_(std::move(file)) {
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
    limits.draft_mode = setup.draft_mode;
    limits.draft_block_tokens = setup.draft_block;
    limits.max_supplied_drafts = setup.supplied;
    limits.cache_groups = groups_;
    return limits;
  }

  std::unique_ptr<StepExecutor> make_rank(const Setup& setup, int32_t rank, Communicator* comm, Ops** ops_out) {
    RankParts parts;
    const bool cuda = setup.backend == "cuda";
    parts.ops = cuda ? gpu_ops(true) : make_cpu_ops({.threads = 1, .isa = ""});
    if (!setup.faults.empty()) parts.ops = std::make_unique<OwningFaultyOps>(std::move(parts.ops), setup.faults);
    if (comm != nullptr) parts.ops->set_comm(comm);
    LoadOptions load;
    load.max_rows = setup.rows;
    DeviceShape device{setup.slots, 1, 0, setup.rows, setup.drafts, setup.supplied};
    load.max_logit_rows = cuda ? padded_rows(device.max_logit_rows()) : device.max_logit_rows();
    load.max_rows = std::max(load.max_rows, load.max_logit_rows);
    load.rank = rank;
    load.ranks = setup.ranks;
    auto model = load_model(file_, config_, *parts.ops, load);
    if (!model.ok()) FAIL(model.error().message);
    parts.model = std::move(model).value();
    KvCacheShape shape;
    shape.groups = parts.model->cache_groups();
    if (setup.model_drafter) parts.drafter = setup.model_drafter(*parts.ops, *parts.model, load, &shape.groups);
    groups_ = static_cast<int32_t>(shape.groups.size());
    shape.blocks.assign(shape.groups.size(), setup.blocks);
    auto kv = KvCache::create(*parts.ops, shape);
    REQUIRE(kv.ok());
    parts.kv = std::move(kv).value();
    if (setup.drafter) parts.drafter = setup.drafter();
    parts.ops->warm_up(std::max(load.max_rows, warm_rows));
    if (ops_out != nullptr) *ops_out = parts.ops.get();
    device.groups = groups_;
    device.block_tokens = shape.block_tokens;
    if (cuda)
      return make_cuda_executor(std::move(parts), device,
                                {.context_tokens = setup.context > 0 ? setup.context : config_.context_length,
                                 .eager = setup.eager,
                                 .ngram = setup.drafts > 0,
                                 .ngram_min = 1,
                                 .ngram_max = 3});
    return std::make_unique<ModelExecutor>(std::move(parts), device);
  }

  /// Warm-up covers this many rows at least: a drafter's largest draft.
  int32_t warm_rows = 0;

  Outcome run(const Setup& setup, const std::vector<std::shared_ptr<Request>>& templates) {
    auto comms = setup.ranks > 1 ? make_local_comms(setup.ranks) : std::vector<std::unique_ptr<Communicator>>(1);
    std::vector<std::unique_ptr<StepExecutor>> ranks;
    Ops* ops = nullptr;
    for (int32_t rank = 0; rank < setup.ranks; ++rank)
      ranks.push_back(make_rank(setup, rank, comms[static_cast<size_t>(rank)].get(), rank == 0 ? &ops : nullptr));
    Outcome outcome;
    const int64_t before = ops->allocations_after_warm_up();  // an executor on a GPU makes its own before the first step
    drive(setup, std::move(ranks), templates, &outcome, [&] { outcome.allocations = ops->allocations_after_warm_up() - before; });
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
    request->speculate = from.speculate;
    request->constraint = from.constraint;
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

  MemoryCheckpoint file_;
  ModelConfig config_;
  int32_t groups_ = 1;
};

inline std::vector<std::shared_ptr<Request>> mixed_requests(const TinyEngine& engine) {
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

inline void require_same(const Texts& got, const Texts& alone, const char* how) {
  REQUIRE(got.size() == alone.size());
  for (const auto& [key, text] : alone) {
    INFO(how << ", request " << key.first << " choice " << key.second);
    REQUIRE(got.at(key).tokens == text.tokens);
    REQUIRE(got.at(key) == text);
  }
}

/// Each request in an engine of its own.
inline Texts alone_texts(TinyEngine& engine, const std::vector<std::shared_ptr<Request>>& requests, const Setup& setup = {}) {
  Texts alone;
  for (size_t i = 0; i < requests.size(); ++i)
    for (auto& [key, text] : engine.run(setup, {requests[i]}).texts) alone[{i, key.second}] = text;
  return alone;
}

}  // namespace slipstream::test
