// The drafter's own promises: chunks and batches change no bit, other sequences are untouched, a block may be short, wanted
// drafts are a prefix, and a sequence that is not finite spoils nobody else's drafts.
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "engine/parallel/local_comm.h"
#include "kernels/checked_ops.h"
#include "tests/catch.h"
#include "tests/model/drafter_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// K and V of every layer and position of a sequence, one after the other.
std::vector<float> context_of(const DraftRig& rig, int32_t sequence, int32_t tokens) {
  std::vector<float> out;
  for (int32_t l = 0; l < rig.drafter().config().stack.layers; ++l)
    for (int32_t p = 0; p < tokens; ++p)
      for (const bool key : {true, false}) {
        const auto row = rig.context_row(key, l, sequence, p);
        out.insert(out.end(), row.begin(), row.end());
      }
  return out;
}

/// A rig of one golden drafter and texts for its three sequences, each of another length.
struct Texts {
  explicit Texts(const std::string& name, const DraftRigOptions& options)
      : golden(read_golden_drafter(name)), target(tiny_safetensors(golden.target)), file(drafter_safetensors(golden)) {
    rig = draft_rig(target, file, options);
    for (int32_t s = 0; s < DraftRig::kSequences; ++s) {
      std::vector<int32_t> ids = golden.ids;
      for (int32_t& id : ids) id = (id * 7 + s * 13) % 128;
      ids.resize(static_cast<size_t>(length(s)) + 1);
      taps.push_back(rig->run_target(ids));
      text.push_back(std::move(ids));
    }
  }
  static int32_t length(int32_t sequence) { return 65 - 24 * sequence; }  // 65, 41, 17
  DraftRig::Chunk whole(int32_t s) const { return {s, 0, length(s), taps[static_cast<size_t>(s)].data()}; }
  DraftBlock block(int32_t s, int32_t rows) const {
    return rig->block(s, text[static_cast<size_t>(s)].back(), length(s), rows);
  }

  GoldenDrafter golden;
  MemoryCheckpoint target, file;
  std::unique_ptr<DraftRig> rig;
  std::vector<std::vector<int32_t>> text;
  std::vector<std::vector<float>> taps;
};

}  // namespace

TEST_CASE("chunks of context give the bits of the whole", "[drafter]") {
  for (const char* name : {"full", "sliding", "last-layer-first"})
    for (const DraftRigOptions& options : {DraftRigOptions{.backend = "reference"}, DraftRigOptions{.backend = "cpu"},
                                           DraftRigOptions{.backend = "cpu", .cache_dtype = DType::kBF16}}) {
      INFO(name << " on " << options.backend);
      const Texts t(name, options);
      const DraftRig::Chunk whole = t.whole(0);
      t.rig->inject({&whole, 1});
      const DraftBlock block = t.block(0, 4);
      const std::vector<float> context = context_of(*t.rig, 0, whole.rows);
      const auto drafts = t.rig->draft({&block, 1});
      const std::vector<float> hidden = t.rig->hidden(block.rows), scores = t.rig->scores(block.drafts);
      CHECK(drafts[0].size() == static_cast<size_t>(block.drafts));
      for (const int32_t chunk : {1, 7, 32, 64}) {
        INFO("chunks of " << chunk);
        for (int32_t first = 0; first < whole.rows; first += chunk) {
          const DraftRig::Chunk part{0, first, std::min(chunk, whole.rows - first), whole.taps};
          t.rig->inject({&part, 1});
        }
        CHECK(same_bits(context_of(*t.rig, 0, whole.rows), context));
        CHECK(t.rig->draft({&block, 1}) == drafts);
        CHECK(same_bits(t.rig->hidden(block.rows), hidden));
        CHECK(same_bits(t.rig->scores(block.drafts), scores));
      }
    }
}

TEST_CASE("sequences in one call get what each gets alone, bit for bit", "[drafter]") {
  for (const char* name : {"sliding-noncausal", "narrow-window", "anchor-first"})
    for (const char* backend : {"reference", "cpu"}) {
      INFO(name << " on " << backend);
      const Texts alone(name, {.backend = backend}), together(name, {.backend = backend});
      const int32_t rows[] = {2, alone.rig->drafter().config().block_rows, 3};
      std::vector<std::vector<int32_t>> want;
      std::vector<float> want_hidden, want_scores, want_context;
      for (int32_t s = 0; s < 3; ++s) {
        const DraftRig::Chunk chunk = alone.whole(s);
        alone.rig->inject({&chunk, 1});
        const DraftBlock block = alone.block(s, rows[s]);
        const auto context = context_of(*alone.rig, s, chunk.rows);
        want_context.insert(want_context.end(), context.begin(), context.end());
        want.push_back(alone.rig->draft({&block, 1})[0]);
        const auto hidden = alone.rig->hidden(rows[s]), scores = alone.rig->scores(block.drafts);
        want_hidden.insert(want_hidden.end(), hidden.begin(), hidden.end());
        want_scores.insert(want_scores.end(), scores.begin(), scores.end());
      }
      CHECK(want[0] != want[1]);

      // Two calls, each with rows of every sequence.
      std::vector<DraftRig::Chunk> first, second;
      std::vector<DraftBlock> blocks;
      int32_t all_rows = 0, slots = 0;
      for (int32_t s = 0; s < 3; ++s) {
        const DraftRig::Chunk whole = together.whole(s);
        first.push_back({s, 0, 10, whole.taps});
        second.push_back({s, 10, whole.rows - 10, whole.taps});
        blocks.push_back(together.block(s, rows[s]));
        all_rows += rows[s];
        slots += blocks.back().drafts;
      }
      together.rig->inject(first);
      together.rig->inject(second);
      std::vector<float> context;
      for (int32_t s = 0; s < 3; ++s) {
        const auto one = context_of(*together.rig, s, Texts::length(s));
        context.insert(context.end(), one.begin(), one.end());
      }
      CHECK(same_bits(context, want_context));
      CHECK(together.rig->draft(blocks) == want);
      CHECK(same_bits(together.rig->hidden(all_rows), want_hidden));
      CHECK(same_bits(together.rig->scores(slots), want_scores));
      // A block leaves the context before it alone, its own sequence's and the others'.
      std::vector<float> after;
      for (int32_t s = 0; s < 3; ++s) {
        const auto one = context_of(*together.rig, s, Texts::length(s));
        after.insert(after.end(), one.begin(), one.end());
      }
      CHECK(same_bits(after, want_context));
    }
}

TEST_CASE("more slots than the head takes at once", "[drafter]") {
  const Texts t("narrow-window", {.backend = "cpu", .max_blocks = 24});
  std::vector<DraftRig::Chunk> chunks = {t.whole(0)};
  std::vector<DraftBlock> blocks;
  std::vector<std::vector<int32_t>> want;
  for (int32_t s = 0; s < 3; ++s) {
    const DraftRig::Chunk chunk = t.whole(s);
    t.rig->inject({&chunk, 1});
    const DraftBlock block = t.block(s, 8);
    want.push_back(t.rig->draft({&block, 1})[0]);
    REQUIRE(want.back().size() == 7);
  }
  CHECK(want[1] != want[2]);
  // The same blocks again and again write the same rows.
  std::vector<std::vector<int32_t>> expected;
  int32_t slots = 0;
  for (int32_t i = 0; i < 24; ++i) {
    DraftBlock block = t.block(i % 3, 8);
    block.drafts = i % 5 == 4 ? 0 : 7 - i % 2;
    slots += block.drafts;
    blocks.push_back(block);
    const auto& all = want[static_cast<size_t>(i % 3)];
    expected.emplace_back(all.begin(), all.begin() + block.drafts);
  }
  REQUIRE(slots > 2 * DflashDrafter::kHeadRows - 16);
  CHECK(t.rig->draft(blocks) == expected);
}

TEST_CASE("wanted drafts are a prefix; a shorter block is another block", "[drafter]") {
  for (const char* name : {"full", "anchor-first"}) {
    INFO(name);
    const Texts t(name, {.backend = "cpu"});
    const DraftRig::Chunk chunk = t.whole(0);
    t.rig->inject({&chunk, 1});
    const DraftBlock whole = t.block(0, 6);
    const auto all = t.rig->draft({&whole, 1})[0];
    REQUIRE(all.size() == (std::string(name) == "full" ? 5u : 6u));
    const std::vector<float> hidden = t.rig->hidden(6);
    for (int32_t wanted = 0; wanted <= whole.drafts; ++wanted) {
      DraftBlock fewer = whole;
      fewer.drafts = wanted;
      CHECK(t.rig->draft({&fewer, 1})[0] == std::vector<int32_t>(all.begin(), all.begin() + wanted));
    }
    const DraftBlock shorter = t.block(0, 3);
    t.rig->draft({&shorter, 1});
    const std::vector<float> short_hidden = t.rig->hidden(3);
    CHECK_FALSE(same_bits(short_hidden, {hidden.begin(), hidden.begin() + static_cast<std::ptrdiff_t>(short_hidden.size())}));
  }
}

TEST_CASE("a context that is not finite gives no drafts, and spoils no other block of the call", "[drafter]") {
  for (const char* backend : {"reference", "cpu"}) {
    INFO(backend);
    Texts t("full", {.backend = backend});
    const DraftRig::Chunk good = t.whole(0);
    t.rig->inject({&good, 1});
    const DraftBlock block = t.block(0, 6);
    const auto want = t.rig->draft({&block, 1})[0];
    REQUIRE(want.size() == 5);
    t.taps[1][3] = std::numeric_limits<float>::quiet_NaN();
    const DraftRig::Chunk bad = t.whole(1);
    t.rig->inject({&bad, 1});
    const DraftBlock blocks[] = {t.block(1, 6), block};
    const auto drafts = t.rig->draft(blocks);
    CHECK(drafts[0].empty());
    CHECK(drafts[1] == want);
  }
}

TEST_CASE("every op of a drafter passes the comparison with the reference", "[drafter]") {
  for (const char* name : {"sliding-noncausal", "narrow-window"})
    for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
      INFO(name << ' ' << dtype_info(dtype).name);
      const GoldenDrafter golden = read_golden_drafter(name);
      MemoryCheckpoint target = tiny_safetensors(golden.target), file = drafter_gguf(golden, dtype);
      const auto rig = draft_rig(target, file, {.backend = "checked"});
      auto& checked = static_cast<CheckedOps&>(rig->ops());
      const std::vector<float> taps = rig->run_target(golden.ids);
      const int64_t before = checked.comparisons();
      const DraftRig::Chunk chunks[] = {{0, 0, 30, taps.data()}, {1, 0, 9, taps.data()}};
      rig->inject(chunks);
      const int64_t injected = checked.comparisons();
      const DraftBlock blocks[] = {rig->block(0, 5, 30, 6), rig->block(1, 9, 9, 4)};
      CHECK(rig->draft(blocks)[1].size() == 3);
      for (const CheckFailure& failure : checked.failures()) UNSCOPED_INFO(failure.text());
      CHECK(checked.failures().empty());
      CHECK(injected - before > 39 * 4);
      CHECK(checked.comparisons() - injected > 10 * 10);
      CHECK(checked.tallies().contains(dtype == DType::kF32 ? "store_rows" : "store_rows, int8 form"));
    }
}

TEST_CASE("tensor parallel ranks draft what one rank drafts, bit for bit", "[drafter]") {
  for (const char* name : {"full", "anchor-first"}) {
    GoldenDrafter golden = read_golden_drafter(name);
    golden.config["intermediate_size"] = 128;  // 96 is three units of the shards: no even number
    // One key/value head ("anchor-first") is held by both ranks.
    struct Result {
      std::vector<std::vector<int32_t>> drafts;
      std::vector<float> hidden, scores;
    };
    const auto run = [&](Communicator* comm) {
      // of its own: a checkpoint in memory notes what was released, for one thread
      MemoryCheckpoint target = tiny_safetensors(golden.target), file = drafter_safetensors(golden);
      auto rig = DraftRig::make(target, file, {.comm = comm});
      if (!rig.ok()) return Result{};
      const std::vector<float> taps = (*rig)->run_target(golden.ids);
      const DraftRig::Chunk chunk{2, 0, 60, taps.data()};
      (*rig)->inject({&chunk, 1});
      const DraftBlock block = (*rig)->block(2, golden.ids[60], 60, 6);
      return Result{(*rig)->draft({&block, 1}), (*rig)->hidden(6), (*rig)->scores(block.drafts)};
    };
    const Result one = run(nullptr);
    REQUIRE(one.drafts.size() == 1);
    REQUIRE(one.drafts[0].size() >= 5);
    const auto comms = make_local_comms(2);
    Result both[2];
    std::thread other([&] { both[1] = run(comms[1].get()); });
    both[0] = run(comms[0].get());
    other.join();
    for (const Result& rank : both) {
      INFO(name);
      CHECK(rank.drafts == one.drafts);
      CHECK(same_bits(rank.hidden, one.hidden));
      CHECK(same_bits(rank.scores, one.scores));
    }
  }
}

TEST_CASE("cache groups: full layers, then those with a window", "[drafter]") {
  const Texts t("sliding", {});
  const auto groups = t.rig->drafter().cache_groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].layers == 1);
  CHECK(groups[0].window == 0);
  CHECK(groups[1].layers == 2);
  CHECK(groups[1].window == 24);
  CHECK(groups[1].kv_heads == 2);
  CHECK(groups[1].head_dim == 16);
  // S F S behind a target of three layers.
  CHECK(t.rig->drafter().cache_layer(0) == 4);
  CHECK(t.rig->drafter().cache_layer(1) == 3);
  CHECK(t.rig->drafter().cache_layer(2) == 5);
  const Texts all("narrow-window", {});
  REQUIRE(all.rig->drafter().cache_groups().size() == 1);
  CHECK(all.rig->drafter().cache_groups()[0].window == 3);
}

TEST_CASE("the target's embedding scale and softcap stand in where the drafter's config has none", "[drafter]") {
  const auto run = [](float target_scale, float target_softcap, const nlohmann::json& own) {
    GoldenDrafter golden = read_golden_drafter("full");
    golden.config["dflash_config"].update(own);
    MemoryCheckpoint target = tiny_safetensors(golden.target), file = drafter_safetensors(golden);
    const auto rig = draft_rig(target, file, {.target_scale = target_scale, .target_softcap = target_softcap});
    const std::vector<float> taps = rig->run_target(golden.ids);
    const DraftRig::Chunk chunk{0, 0, 40, taps.data()};
    rig->inject({&chunk, 1});
    const DraftBlock block = rig->block(0, golden.ids[40], 40, 6);
    CHECK(rig->draft({&block, 1})[0].size() == 5);
    return std::pair{rig->hidden(6), rig->drafter().logit(3.0f)};
  };
  const auto plain = run(1, 0, nlohmann::json::object());
  const auto borrowed = run(2.5f, 2, nlohmann::json::object());
  const auto own = run(1, 0, {{"input_embedding_scale", 2.5}, {"final_logit_softcapping", 2.0}, {"output_multiplier", 0.5}});
  const auto overruled = run(2.5f, 2, {{"input_embedding_scale", 1.0}, {"final_logit_softcapping", 0.0}});
  CHECK(plain.second == 3.0f);
  CHECK(borrowed.second == Approx(2 * std::tanh(1.5)));
  CHECK(own.second == Approx(2 * std::tanh(0.75)));
  CHECK(overruled.second == 3.0f);
  CHECK(same_bits(borrowed.first, own.first));
  CHECK(same_bits(overruled.first, plain.first));
  CHECK_FALSE(same_bits(borrowed.first, plain.first));
}
