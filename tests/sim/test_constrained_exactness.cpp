// Constrained texts of a real (tiny) model through the whole engine: the same however they are computed, and lawful.
#include "engine/spec/oracle_drafter.h"
#include "engine/spec/random_drafter.h"
#include "tests/sim/automaton_constraint.h"
#include "tests/sim/tiny_engine.h"

using namespace slipstream;
using namespace slipstream::test;

TEST_CASE("constrained text is the same alone, batched, chunked, preempted, drafted and at two ranks") {
  TinyEngine engine("qwen2-upper-window");
  auto requests = mixed_requests(engine);
  std::vector<std::shared_ptr<const sim::AutomatonSpec>> specs;
  for (size_t i = 0; i < requests.size(); ++i) {
    // A few stay without one: they must not notice.
    specs.push_back(i % 4 == 3 ? nullptr
                               : std::make_shared<const sim::AutomatonSpec>(
                                     sim::Automaton::Shape{i * 3 + 1, engine.config().vocab, engine.config().vocab - 1, i % 2 == 1, false}));
    requests[i]->constraint = specs.back();
  }
  const Texts alone = alone_texts(engine, requests);
  int64_t checked = 0;
  for (const auto& [key, text] : alone) {
    if (specs[key.first] == nullptr) continue;
    const sim::Automaton& automaton = specs[key.first]->automaton();
    for (size_t i = 0; i < text.tokens.size(); ++i, ++checked)
      REQUIRE(automaton.allows(automaton.walk(std::span(text.tokens).first(i)), text.tokens[i]));
  }
  REQUIRE(checked > 30);

  const Outcome batch = engine.run({.slots = 6, .rows = 200, .supplied = 32}, requests);
  require_same(batch.texts, alone, "batch, with supplied drafts");
  REQUIRE(batch.stats.forced_accepted > 0);
  REQUIRE(batch.stats.masked_rows > 30);
  REQUIRE(batch.allocations == 0);
  require_same(engine.run({.slots = 3, .rows = 9, .supplied = 5}, requests).texts, alone, "chunks");
  const Outcome preempted = engine.run({.slots = 4, .rows = 64, .blocks = 9, .supplied = 20}, requests);
  require_same(preempted.texts, alone, "preempted");
  REQUIRE(preempted.stats.preemptions > 0);
  // Knows every text, and is wrong at some positions.
  const auto future = [&](std::span<const int32_t> history) {
    for (const auto& [key, text] : alone) {
      std::vector<int32_t> whole = requests[key.first]->prompt;
      whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
      if (history.size() < whole.size() && std::equal(history.begin(), history.end(), whole.begin())) return whole[history.size()];
    }
    return -1;
  };
  const auto wrong = [](int32_t position) { return position % 7 == 0; };
  const Outcome oracle = engine.run({.slots = 4, .rows = 64, .drafts = 5, .prefix_caching = true, .rounds = 2,
                                     .drafter = [&] { return std::make_unique<OracleDrafter>(future, wrong, engine.config().vocab); },
                                     .supplied = 20},
                                    requests);
  require_same(oracle.texts, alone, "drafts");
  REQUIRE(oracle.stats.accepted_tokens > 10);
  REQUIRE(oracle.stats.draft_tokens > oracle.stats.accepted_tokens);
  const Outcome ranks = engine.run({.slots = 4, .rows = 64, .drafts = 3, .ranks = 2,
                                    .drafter = [&] { return std::make_unique<RandomDrafter>(11, engine.config().vocab); }, .supplied = 20},
                                   requests);
  require_same(ranks.texts, alone, "two ranks, random drafts");
  REQUIRE(ranks.stats.draft_tokens > 0);
}
