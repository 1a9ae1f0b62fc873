// The DFlash drafter behind the real engine on the CPU: the text is that of plain decoding however it is computed, and the
// draft context is what a fresh computation of the same history gives, after chunks, verification, preemption and prefix hits.
#include <map>

#include "engine/sample/reasoning_budget.h"
#include "engine/spec/dflash_proposer.h"
#include "tests/model/drafter_fixture.h"
#include "tests/sim/tiny_engine.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

/// What a fresh target and drafter make of one history, seen at once. Kept between runs: the same texts come again under every setup,
/// and under a sanitizer each computation takes its time.
class FreshContexts {
 public:
  struct One {
    std::vector<std::vector<float>> rows;  // [layer][position][K, V]
    std::vector<int32_t> drafts;
  };
  explicit FreshContexts(DraftRig& rig) : rig_(rig) {}
  int32_t layers() const { return rig_.drafter().config().stack.layers; }
  int32_t cache_layer(int32_t layer) const { return rig_.drafter().cache_layer(layer); }

  const One& of(const std::vector<int32_t>& history, int32_t max_drafts) {
    const auto [found, is_new] = known_.try_emplace({history, max_drafts});
    if (is_new) compute(history, max_drafts, &found->second);
    return found->second;
  }

 private:
  void compute(const std::vector<int32_t>& history, int32_t max_drafts, One* one) {
    const auto context = static_cast<int32_t>(history.size()) - 1;
    const std::vector<float> taps = rig_.run_target({history.data(), history.size() - 1});
    const DraftRig::Chunk chunk{0, 0, context, taps.data()};
    rig_.inject({&chunk, 1});
    for (int32_t layer = 0; layer < layers(); ++layer)
      for (int32_t p = 0; p < context; ++p)
        for (const bool key : {true, false}) one->rows.push_back(rig_.context_row(key, layer, 0, p));
    DraftBlock block = rig_.block(0, history.back(), context, rig_.drafter().config().block_rows);
    block.drafts = std::min(block.drafts, max_drafts);
    one->drafts = rig_.draft({&block, 1})[0];
  }

  DraftRig& rig_;
  std::map<std::pair<std::vector<int32_t>, int32_t>, One> known_;
};

/// Compares the context of every proposal, and the proposal, with those of a fresh target and drafter, which see the same history
/// at once, bit for bit; then hands over what it was told will come, wrong at some positions, so that blocks are accepted to every length.
class AuditedDrafter final : public Drafter {
 public:
  struct Tally {
    int64_t proposals = 0, wrong = 0, positions = 0, wrong_positions = 0;
  };
  using Future = std::function<int32_t(std::span<const int32_t> history)>;

  AuditedDrafter(std::unique_ptr<Drafter> inner, FreshContexts& fresh, Future future, Tally* tally)
      : inner_(std::move(inner)), fresh_(fresh), future_(std::move(future)), tally_(tally) {}
  std::string name() const override { return inner_->name(); }
  void attach(const KvViews& kv) override {
    kv_ = &kv;
    inner_->attach(kv);
  }
  Taps* taps() override { return inner_->taps(); }
  void observe(const StandingRows& standing) override { inner_->observe(standing); }
  void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) override {
    inner_->propose(requests, drafts);
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::vector<int32_t> history(requests[i].history.begin(), requests[i].history.end());
      const FreshContexts::One& fresh = fresh_.of(history, requests[i].max_tokens);
      compare_context(requests[i], static_cast<int32_t>(history.size()) - 1, fresh);
      ++tally_->proposals;
      if ((*drafts)[i] != fresh.drafts) ++tally_->wrong;

      std::vector<int32_t> text = history;
      (*drafts)[i].clear();
      while (static_cast<int32_t>((*drafts)[i].size()) < requests[i].max_tokens) {
        const int32_t next = future_(text);
        if (next < 0) break;
        text.push_back(text.size() % 5 == 3 ? (next + 1) % 128 : next);
        (*drafts)[i].push_back(text.back());
      }
    }
  }

 private:
  void compare_context(const DraftRequest& request, int32_t context, const FreshContexts::One& fresh) {
    size_t row = 0;
    for (int32_t layer = 0; layer < fresh_.layers(); ++layer) {
      const KvLayer kv = kv_->layer(fresh_.cache_layer(layer));  // the same target: the same place
      for (int32_t p = 0; p < context; ++p)
        for (const bool key : {true, false}) {
          ++tally_->positions;
          if (cache_row(kv, request.block_tables[kv.group], key, p) != fresh.rows[row++]) ++tally_->wrong_positions;
        }
    }
  }

  std::unique_ptr<Drafter> inner_;
  const KvViews* kv_ = nullptr;
  FreshContexts& fresh_;
  Future future_;
  Tally* tally_;
};

/// A golden drafter, its target behind an engine, and mixed requests with their plain texts.
struct Case {
  explicit Case(const std::string& name)
      : golden(read_golden_drafter(name)), target(tiny_safetensors(golden.target, DType::kBF16)),
        file(drafter_safetensors(golden, DType::kBF16)), engine(tiny_safetensors(golden.target, DType::kBF16)) {
    config = read_drafter_config(file).value();
    requests = mixed_requests(engine);
    for (auto& request : requests) {
      request->sampling.stop_ids.clear();
      request->sampling.max_tokens += 40;  // long enough to be preempted
    }
    alone = alone_texts(engine, requests);
    engine.warm_rows = DflashProposer::inject_rows(200, 6);
  }
  Setup setup(Setup base) {
    base.drafts = std::min(4, config.drafts(config.block_rows));
    base.draft_block = config.block_rows;
    base.model_drafter = [this](Ops& ops, const Model& model, const LoadOptions& load, std::vector<CacheGroupSpec>* groups) {
      return make(ops, model, load, groups);
    };
    return base;
  }
  std::unique_ptr<Drafter> make(Ops& ops, const Model& model, const LoadOptions& load, std::vector<CacheGroupSpec>* groups) {
    constexpr int32_t kSlots = 6;
    DrafterOptions options;
    options.load = load;
    options.load.max_rows = DflashProposer::inject_rows(load.max_rows, kSlots);
    options.max_blocks = kSlots;
    options.first_cache_layer = model.config().layers;
    auto drafter = load_dflash_drafter(file, config, model, ops, options);
    INFO((drafter.ok() ? std::string() : drafter.error().message));
    REQUIRE(drafter.ok());
    for (const CacheGroupSpec& group : (*drafter)->cache_groups()) groups->push_back(group);
    return std::make_unique<DflashProposer>(std::move(drafter).value(), ops, load.max_rows, kSlots);
  }
  /// The tokens that were generated alone after this history, or -1.
  int32_t next(std::span<const int32_t> history) const {
    for (const auto& [key, text] : alone) {
      std::vector<int32_t> whole = requests[key.first]->prompt;
      whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
      if (history.size() < whole.size() && std::equal(history.begin(), history.end(), whole.begin())) return whole[history.size()];
    }
    return -1;
  }

  GoldenDrafter golden;
  MemoryCheckpoint target, file;
  DrafterConfig config;
  TinyEngine engine;
  std::vector<std::shared_ptr<Request>> requests;
  Texts alone;
};

}  // namespace

TEST_CASE("the text is that of plain decoding with a DFlash drafter too") {
  for (const char* name : {"full", "sliding", "anchor-first"}) {
    INFO(name);
    Case c(name);
    const Outcome batch = c.engine.run(c.setup({.slots = 6, .rows = 200}), c.requests);
    require_same(batch.texts, c.alone, "batch");
    REQUIRE(batch.allocations == 0);
    REQUIRE(batch.stats.draft_tokens > 200);

    require_same(c.engine.run(c.setup({.slots = 3, .rows = 21}), c.requests).texts, c.alone, "chunks");
    require_same(c.engine.run(c.setup({.slots = 4, .rows = 64, .draft_mode = DraftMode::kAdaptive}), c.requests).texts, c.alone, "adaptive");
    const Outcome preempted = c.engine.run(c.setup({.slots = 4, .rows = 64, .blocks = 9}), c.requests);
    require_same(preempted.texts, c.alone, "preempted");
    REQUIRE(preempted.stats.preemptions > 0);
    const Outcome hits = c.engine.run(c.setup({.slots = 4, .rows = 64, .prefix_caching = true, .rounds = 2}), c.requests);
    require_same(hits.texts, c.alone, "prefix hits");
    REQUIRE(hits.stats.prefix_hit_tokens > 300);

    // Without look-ahead in the grants a block is cut where the sequence's blocks end, and nobody else's are written.
    Setup tight = c.setup({.slots = 4, .rows = 64});
    tight.draft_block = 0;
    require_same(c.engine.run(tight, c.requests).texts, c.alone, "no room behind the newest token");
  }
}

TEST_CASE("the draft context equals a fresh computation of the same history, whatever happened to it") {
  for (const char* name : {"sliding", "last-layer-first", "narrow-window"}) {
    INFO(name);
    Case c(name);
    const auto rig = draft_rig(c.target, c.file, {.cache_dtype = DType::kBF16, .max_rows = DraftRig::kTokens});
    FreshContexts fresh(*rig);
    AuditedDrafter::Tally tally;
    const auto audited = [&](Setup base) {
      Setup setup = c.setup(std::move(base));
      setup.model_drafter = [&](Ops& ops, const Model& model, const LoadOptions& load, std::vector<CacheGroupSpec>* groups) {
        return std::make_unique<AuditedDrafter>(c.make(ops, model, load, groups), fresh,
                                                [&](std::span<const int32_t> history) { return c.next(history); }, &tally);
      };
      tally = {};
      Outcome outcome = c.engine.run(setup, c.requests);
      require_same(outcome.texts, c.alone, "audited");
      CHECK(tally.wrong == 0);
      CHECK(tally.wrong_positions == 0);
      CHECK(tally.positions > 20 * tally.proposals);
      return outcome;
    };
    const Outcome batch = audited({.slots = 5, .rows = 100});
    REQUIRE(batch.stats.accepted_tokens > 60);
    REQUIRE(batch.stats.draft_tokens > batch.stats.accepted_tokens);
    CHECK(tally.proposals > 60);

    const Outcome hard = audited({.slots = 4, .rows = 40, .blocks = 10, .prefix_caching = true, .rounds = 2});
    REQUIRE(hard.stats.preemptions > 0);
    REQUIRE(hard.stats.prefix_hit_tokens > 100);
    CHECK(tally.proposals > 120);

    // So few rows that six sequences decode plainly, and fewer of them draft: rows wait, and go when a draft is due.
    const Outcome narrow = audited({.slots = 6, .rows = 12});
    CHECK(narrow.stats.steps > batch.stats.steps);
    CHECK(tally.proposals > 30);

    // Constrained: drafts that the plan supplies, verified between those of the drafter, leave the same context.
    if (name == std::string("sliding")) {
      const auto free_requests = c.requests;
      const Texts free_texts = c.alone;
      c.requests = mixed_requests(c.engine);
      c.requests.resize(4);
      for (size_t i = 0; i < c.requests.size(); ++i) {
        c.requests[i]->sampling.stop_ids.clear();
        c.requests[i]->sampling.max_tokens += 20;
        // Free for some tokens, certain for twenty, free again.
        ReasoningBudget::Rules rules{3 + 5 * static_cast<int32_t>(i), {}, {}, true};
        for (int32_t id = 0; id < 20; ++id) rules.end.push_back(5 * id + 3);
        c.requests[i]->constraint = std::make_shared<const ReasoningBudget>(std::move(rules));
      }
      c.alone = alone_texts(c.engine, c.requests);
      const Outcome constrained = audited({.slots = 4, .rows = 100, .supplied = 32});
      CHECK(constrained.stats.forced_accepted > 40);
      CHECK(constrained.stats.accepted_tokens > 10);
      c.requests = free_requests;
      c.alone = free_texts;
    }

    // A sequence without speculation leaves blocks that its continuation, with speculation, begins from. Of its 129 positions the
    // last that 16 waiting rows push out is 114: the fourth block has its context since it became full, and only then.
    const auto first = std::make_shared<Request>();
    first->prompt = c.requests[0]->prompt;
    first->sampling = c.requests[0]->sampling;
    first->sampling.max_tokens = 60;
    first->speculate = false;
    REQUIRE(first->prompt.size() == 70);
    const auto second = std::make_shared<Request>();
    const std::vector<int32_t> text = c.alone.at({0, 0}).tokens;
    second->prompt = first->prompt;
    second->prompt.insert(second->prompt.end(), text.begin(), text.begin() + 60);
    second->sampling = first->sampling;
    second->sampling.max_tokens = 40;
    c.requests = {first, second};
    c.alone = alone_texts(c.engine, c.requests);
    REQUIRE(std::equal(text.begin(), text.begin() + 60, c.alone.at({0, 0}).tokens.begin()));
    const Outcome continued = audited({.slots = 1, .rows = 64, .prefix_caching = true});
    CHECK(continued.stats.prefix_hit_tokens == 128);
    CHECK(tally.proposals > 5);
  }
}
