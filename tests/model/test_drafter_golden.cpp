// Tiny drafters of tiny targets against an independent implementation in float64 (scripts/make_drafter_golden, which agrees
// with the authors' own to the single precision of its RoPE): taps, context K and V, hidden states, logits and drafts.
#include <cmath>

#include "tests/catch.h"
#include "tests/model/drafter_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

// Values are of the order of 1, hidden states up to 10; float32 through target and drafter is off by up to 7e-6 here. A wrong
// tap, norm, window, position or slot is off by 0.01 and more.
constexpr double kBound = 3e-5;

/// Largest distance; infinite where one is NaN. Fails the test on another count.
double distance(const std::vector<double>& want, const std::vector<float>& got) {
  REQUIRE(want.size() == got.size());
  REQUIRE_FALSE(want.empty());
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::fabs(want[i] - double{got[i]});
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

/// Rows `positions` of [*, width].
std::vector<float> rows_at(const std::vector<float>& all, const std::vector<int32_t>& positions, size_t width) {
  std::vector<float> out;
  for (const int32_t p : positions) {
    const float* from = all.data() + static_cast<size_t>(p) * width;
    out.insert(out.end(), from, from + width);
  }
  return out;
}

/// Goes through the text of the golden file as decoding would: context up to each block, then the block.
void check_golden(const GoldenDrafter& golden, Checkpoint& file, const DraftRigOptions& options) {
  INFO(golden.name << " on " << options.backend << ' ' << options.isa);
  MemoryCheckpoint target = tiny_safetensors(golden.target);
  const auto rig = draft_rig(target, file, options);
  const DrafterConfig& c = rig->drafter().config();
  const std::vector<float> taps = rig->run_target(golden.ids);
  CHECK(distance(golden.taps, rows_at(taps, golden.positions, c.taps.size() * static_cast<size_t>(c.stack.hidden))) < kBound);

  REQUIRE(golden.blocks.size() == 4);
  int32_t done = 0;
  const auto inject_to = [&](int32_t context) {
    const DraftRig::Chunk chunk{1, done, context - done, taps.data()};
    rig->inject({&chunk, 1});
    done = context;
  };
  for (const GoldenBlock& want : golden.blocks) {
    INFO("block at " << want.context);
    inject_to(want.context);
    const DraftBlock block = rig->block(1, golden.ids[static_cast<size_t>(want.context)], want.context, want.rows);
    const auto drafts = rig->draft({&block, 1});
    CHECK(distance(want.hidden, rig->hidden(want.rows)) < kBound);
    std::vector<float> logits = rig->scores(block.drafts);
    for (float& value : logits) value = rig->drafter().logit(value);
    CHECK(distance(want.logits, logits) < kBound);
    CHECK(want.drafts.size() == static_cast<size_t>(c.anchor_first ? want.rows : want.rows - 1));
    CHECK(drafts[0] == want.drafts);
  }
  inject_to(static_cast<int32_t>(golden.ids.size()));
  for (int32_t l = 0; l < c.stack.layers; ++l)
    for (const bool key : {true, false}) {
      std::vector<float> got;
      for (const int32_t p : golden.positions) {
        const auto row = rig->context_row(key, l, 1, p);
        got.insert(got.end(), row.begin(), row.end());
      }
      INFO((key ? "K" : "V") << " of layer " << l);
      CHECK(distance((key ? golden.k : golden.v)[static_cast<size_t>(l)], got) < kBound);
    }
  CHECK(rig->ops().allocations_after_warm_up() == 0);
}

}  // namespace

TEST_CASE("drafters equal an independent implementation on both backends", "[drafter]") {
  for (const std::string& name : golden_drafter_names()) {
    const GoldenDrafter golden = read_golden_drafter(name);
    MemoryCheckpoint file = drafter_safetensors(golden);
    check_golden(golden, file, {.backend = "reference"});
    check_golden(golden, file, {.backend = "cpu", .isa = "scalar"});
    check_golden(golden, file, {.backend = "cpu"});
  }
}

TEST_CASE("the same drafters as GGUF, whose layers are counted from 1", "[drafter]") {
  for (const std::string& name : golden_drafter_names()) {
    const GoldenDrafter golden = read_golden_drafter(name);
    MemoryCheckpoint file = drafter_gguf(golden);
    check_golden(golden, file, {.backend = "cpu"});
  }
}

TEST_CASE("quantised and half-precision drafters stay close: cpu against reference", "[drafter]") {
  // int8 activations per 32 elements round at 1/254 of the block's maximum, in the fusion too.
  const GoldenDrafter golden = read_golden_drafter("full");
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
    INFO(dtype_info(dtype).name);
    MemoryCheckpoint target = tiny_safetensors(golden.target), file = drafter_gguf(golden, dtype);
    std::vector<float> both[2];
    for (const bool reference : {true, false}) {
      const auto rig = draft_rig(target, file, {.backend = reference ? "reference" : "cpu"});
      const std::vector<float> taps = rig->run_target(golden.ids);
      const DraftRig::Chunk chunk{0, 0, 64, taps.data()};
      rig->inject({&chunk, 1});
      const DraftBlock block = rig->block(0, golden.ids[64], 64, 6);
      rig->draft({&block, 1});
      both[reference] = rig->scores(5);
    }
    double square = 0, error = 0;
    for (size_t i = 0; i < both[0].size(); ++i) {
      square += double{both[1][i]} * both[1][i];
      error += std::pow(double{both[0][i]} - both[1][i], 2);
    }
    INFO("relative error " << std::sqrt(error / square));
    CHECK(square > 1);
    CHECK(std::sqrt(error / square) < (dtype == DType::kBF16 || dtype == DType::kF16 ? 1e-5 : 0.03));
  }
}
