// The whole engine on a GPU with tiny models of real head dims: the deterministic backend gives the same text and logprobs, bit
// for bit, however a request is computed; a NaN ends its own sequence and no other.
#include <limits>
#include <random>

#include "tests/sim/automaton_constraint.h"
#include "tests/sim/tiny_engine.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

/// Wide enough for several stages of K, long enough for several splits of the cache.
Golden widened(const char* name, int32_t head_dim) {
  Golden golden = read_golden(name);
  golden.config["head_dim"] = head_dim;
  golden.config["hidden_size"] = 768;
  golden.config["intermediate_size"] = 1536;
  golden.config["max_position_embeddings"] = 2048;
  return golden;
}

MemoryCheckpoint file_of(const Golden& golden, DType dtype) {
  return dtype_info(dtype).block_elements > 1 ? tiny_gguf(golden, dtype) : tiny_safetensors(golden, dtype);
}

/// The CPU's mix, more logprobs, and two prompts over two splits of the cache.
std::vector<std::shared_ptr<Request>> long_requests(const TinyEngine& engine) {
  std::vector<std::shared_ptr<Request>> all = mixed_requests(engine);
  for (const auto& request : all)
    if (request->sampling.top_logprobs >= 0) request->sampling.top_logprobs = kMaxTopLogprobs;
  for (int32_t i = 0; i < 2; ++i) {
    auto request = std::make_shared<Request>();
    request->prompt = engine.prompt(i == 0 ? 1003 : 530, 17 + i);
    request->sampling.max_tokens = 40;
    request->sampling.temperature = i == 0 ? 0.0f : 0.8f;
    request->sampling.seed = 77;
    request->sampling.top_logprobs = kMaxTopLogprobs;
    all.push_back(std::move(request));
  }
  return all;
}

void require_exact(TinyEngine& engine, bool thorough) {
  const auto requests = long_requests(engine);
  const auto cuda = [](Setup setup) {
    setup.backend = "cuda";
    if (setup.blocks == 100) setup.blocks = 300;
    return setup;
  };
  const Texts alone = alone_texts(engine, requests, cuda({.rows = 128}));
  REQUIRE(alone.size() == 12);
  size_t logprobs = 0;
  for (const auto& [key, text] : alone) logprobs += text.logprobs.size();
  REQUIRE(logprobs > 21 * 100);

  for (const size_t i : {size_t{0}, requests.size() - 2, requests.size() - 1}) {
    INFO("alone, eager, whole prompts: request " << i);
    REQUIRE(engine.run(cuda({.eager = true, .rows = 2048}), {requests[i]}).texts.at({0, 0}) == alone.at({i, 0}));
  }
  const Outcome batch = engine.run(cuda({.slots = 12, .rows = 2048}), requests);
  require_same(batch.texts, alone, "batch of 12");
  REQUIRE(batch.allocations == 0);
  const Outcome ngram = engine.run(cuda({.slots = 5, .rows = 200, .drafts = 4}), requests);
  require_same(ngram.texts, alone, "n-gram drafts");
  REQUIRE(ngram.stats.draft_tokens > 20);
  if (!thorough) return;

  require_same(engine.run(cuda({.eager = true, .context = 1300, .slots = 5, .rows = 333}), requests).texts, alone,
               "batch of 5, eager, another longest context");
  require_same(engine.run(cuda({.slots = 3, .rows = 37}), requests).texts, alone, "chunks of at most 37 rows");
  // the long prompts would leave nobody to preempt
  const std::vector<std::shared_ptr<Request>> short_ones(requests.begin(), requests.end() - 2);
  Texts short_alone = alone;
  std::erase_if(short_alone, [&](const auto& text) { return text.first.first >= short_ones.size(); });
  const Outcome preempted = engine.run(cuda({.slots = 4, .rows = 64, .blocks = 9}), short_ones);
  require_same(preempted.texts, short_alone, "preempted");
  REQUIRE(preempted.stats.preemptions > 0);
  const Outcome hits = engine.run(cuda({.slots = 4, .rows = 300, .prefix_caching = true, .rounds = 2}), requests);
  require_same(hits.texts, alone, "prefix hits");
  REQUIRE(hits.stats.prefix_hit_tokens > 300);
  const Outcome wide = engine.run(cuda({.slots = 12, .rows = 1000, .drafts = 15}), requests);
  require_same(wide.texts, alone, "drafts of 15");
  REQUIRE(wide.stats.accepted_tokens > 0);

  // 33 sequences and more at once
  std::vector<std::shared_ptr<Request>> many;
  for (int32_t copy = 0; copy < 4; ++copy) many.insert(many.end(), requests.begin(), requests.end());
  const Outcome crowd = engine.run(cuda({.slots = 40, .rows = 500, .blocks = 600}), many);
  for (const auto& [key, text] : crowd.texts) {
    INFO("batch of 40, request " << key.first << " choice " << key.second);
    REQUIRE(text == alone.at({key.first % requests.size(), key.second}));
  }
}

}  // namespace

TEST_CASE("cuda engine: deterministic, the text is the same however it is computed", "[cuda][models][exact]") {
  for (const auto& [name, head_dim, dtype] :
       {std::tuple{"qwen3", 64, DType::kBF16}, std::tuple{"qwen3", 128, DType::kQ8_0}, std::tuple{"mistral-window", 128, DType::kF16},
        std::tuple{"llama-biases", 64, DType::kF32}, std::tuple{"llama-tied", 64, DType::kQ4_1}, std::tuple{"qwen3", 32, DType::kBF16}}) {
    INFO(name << ", heads of " << head_dim << ", " << dtype_info(dtype).name);
    TinyEngine engine(file_of(widened(name, head_dim), dtype));
    require_exact(engine, dtype != DType::kF32 && head_dim != 32);
  }
}

TEST_CASE("cuda engine: constrained text is lawful and the same with drafts, supplied drafts and preemption", "[cuda][models][exact]") {
  TinyEngine engine(file_of(widened("qwen3", 64), DType::kBF16));
  auto requests = mixed_requests(engine);
  std::vector<std::shared_ptr<const sim::AutomatonSpec>> specs;
  for (size_t i = 0; i < requests.size(); ++i) {
    specs.push_back(i % 4 == 3 ? nullptr
                               : std::make_shared<const sim::AutomatonSpec>(
                                     sim::Automaton::Shape{i, engine.config().vocab, engine.config().vocab - 1, i % 2 == 1, false}));
    requests[i]->constraint = specs.back();
  }
  const auto cuda = [](Setup setup) {
    setup.backend = "cuda";
    return setup;
  };
  const Texts alone = alone_texts(engine, requests, cuda({.rows = 128}));
  int64_t checked = 0;
  for (const auto& [key, text] : alone) {
    if (specs[key.first] == nullptr) continue;
    const sim::Automaton& automaton = specs[key.first]->automaton();
    for (size_t i = 0; i < text.tokens.size(); ++i, ++checked)
      REQUIRE(automaton.allows(automaton.walk(std::span(text.tokens).first(i)), text.tokens[i]));
  }
  REQUIRE(checked > 30);
  const Outcome batch = engine.run(cuda({.slots = 6, .rows = 200, .supplied = 32}), requests);
  require_same(batch.texts, alone, "batch, with supplied drafts and no drafter");
  REQUIRE(batch.stats.forced_accepted > 0);
  REQUIRE(batch.allocations == 0);
  const Outcome ngram = engine.run(cuda({.slots = 5, .rows = 200, .drafts = 4, .supplied = 32}), requests);
  require_same(ngram.texts, alone, "n-gram drafts");
  REQUIRE(ngram.stats.draft_tokens > 20);
  require_same(engine.run(cuda({.eager = true, .slots = 5, .rows = 64, .drafts = 4, .supplied = 32}), requests).texts, alone, "eager");
  const Outcome preempted = engine.run(cuda({.slots = 4, .rows = 64, .blocks = 9, .drafts = 2, .supplied = 8}), requests);
  require_same(preempted.texts, alone, "preempted");
  REQUIRE(preempted.stats.preemptions > 0);
}

TEST_CASE("cuda engine: a NaN ends its own sequence, and its blocks are never hit again", "[cuda][models][faults]") {
  // One row of the embedding is NaN: who reads that token is lost.
  constexpr int32_t kPoison = 7;
  MemoryCheckpoint file = tiny_safetensors(widened("qwen3", 64), DType::kBF16);
  std::mt19937 rng(4);
  std::normal_distribution<float> normal;
  std::vector<float> table(320 * 768);
  for (float& value : table) value = normal(rng);
  std::fill_n(table.begin() + kPoison * 768, 768, std::numeric_limits<float>::quiet_NaN());
  file.add("model.embed_tokens.weight", {320, 768}, table, DType::kBF16);
  TinyEngine engine(std::move(file));

  std::vector<std::shared_ptr<Request>> clean = long_requests(engine), all;
  for (const auto& request : clean) {
    for (int32_t& id : request->prompt) id = id == kPoison ? kPoison + 1 : id;
    request->sampling.logit_bias.push_back({kPoison, -100.0f});  // nobody draws it
  }
  for (size_t i = 0; i < clean.size(); ++i) {
    all.push_back(clean[i]);
    auto poisoned = std::make_shared<Request>();  // begins as its neighbour does, so both share blocks
    poisoned->prompt = clean[i]->prompt;
    poisoned->prompt.push_back(kPoison);
    poisoned->sampling = clean[i]->sampling;
    all.push_back(std::move(poisoned));
  }
  const Setup setup{.backend = "cuda", .slots = 12, .rows = 300, .blocks = 600, .prefix_caching = true};
  const Texts wanted = engine.run(setup, clean).texts;
  Setup again = setup;
  again.rounds = 3;  // the second and third round meet what the first left in the cache
  const Outcome outcome = engine.run(again, all);
  REQUIRE(outcome.stats.non_finite_rows == 3 * static_cast<int64_t>(clean.size()));
  REQUIRE(outcome.stats.prefix_hit_tokens > 1000);
  REQUIRE(outcome.stats.blocks_used == 0);
  for (const auto& [key, text] : outcome.texts) {
    INFO("request " << key.first << " choice " << key.second);
    if (key.first % 2 == 0) {
      REQUIRE(text == wanted.at({key.first / 2, key.second}));
    } else {
      REQUIRE(text.finish == FinishReason::kError);
      REQUIRE(text.tokens.empty());
    }
  }
}
