// Ids that no request can bring (the schema and the plan's checks refuse them) planted behind those walls: kernels clamp or
// ignore them, and the sequence beside the planted one keeps its bits. compute-sanitizer runs these cases.
#include <limits>

#include "tests/cuda/executor_fixture.h"

using namespace slipstream;
using namespace slipstream::cuda::test;
using namespace slipstream::test;

namespace {

constexpr int32_t kWild[] = {-1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), 1 << 24, 320};

/// What slot 1 emits over a prompt and twelve steps beside slot 0, with logprobs.
std::vector<std::pair<int32_t, float>> neighbour_of(StepExecutor& executor, int32_t vocab, bool planted, uint32_t generation) {
  std::vector<std::pair<int32_t, float>> out;
  for (uint64_t step = 1; step <= 12; ++step) {
    StepPlan plan;
    plan.step = step;
    plan.commit = CommitVariant::kFull;
    for (int32_t slot = 0; slot < 2; ++slot) {
      if (step == 1) {
        OpenSlot open;
        open.slot = slot, open.generation = generation;
        for (int32_t t = 0; t < 20; ++t) open.history.push_back((t * 31 + slot * 7) % vocab);
        open.prompt_tokens = 20, open.remaining_tokens = 100;
        open.sampling.temperature = 0.8f, open.sampling.seed = 5;
        open.sampling.repetition_penalty = 1.1f, open.sampling.frequency_penalty = 0.2f;
        open.sampling.top_logprobs = 2, open.sampling.min_tokens = 50;
        open.sampling.stop_ids = {3};
        open.sampling.logit_bias = {{4, -1.0f}};
        for (size_t i = 0; i < std::size(kWild) && planted && slot == 0; ++i) {
          open.history[3 * i] = kWild[i];
          open.sampling.stop_ids.push_back(kWild[i]);
          open.sampling.logit_bias.push_back({kWild[i], 9.0f});
        }
        plan.commands.push_back(open);
        plan.commands.push_back(GrantBlocks{slot, 0, {slot * 4, slot * 4 + 1, slot * 4 + 2, slot * 4 + 3}});
      }
      Span span;
      span.slot = slot, span.generation = generation;
      span.kind = step == 1 ? SpanKind::kPrefill : step % 3 == 0 ? SpanKind::kVerify : SpanKind::kDecode;
      span.rows = step == 1 ? 20 : step % 3 == 0 ? 3 : 1;
      span.start = step == 1 ? 0 : 128;
      span.logits = step % 3 == 0 ? LogitsWanted::kAll : LogitsWanted::kLast;
      if (step % 3 == 0) span.supplied_drafts = planted && slot == 0 ? std::vector<int32_t>{kWild[step % 5], kWild[0]} : std::vector<int32_t>{7, 8};
      plan.total_rows += span.rows;
      plan.spans.push_back(span);
    }
    executor.forward(plan);
    const StepResult result = executor.commit(plan, StepMasks{});
    const SpanResult& planted_span = result.spans[0];
    REQUIRE(!planted_span.non_finite);
    for (const int32_t token : planted_span.emitted) REQUIRE((token >= 0 && token < vocab));
    for (size_t i = 0; i < result.spans[1].emitted.size(); ++i)
      out.emplace_back(result.spans[1].emitted[i], result.spans[1].logprobs[i].logprob);
  }
  StepPlan release;
  release.step = 13;
  for (int32_t slot = 0; slot < 2; ++slot) release.commands.push_back(ReleaseSlot{slot, generation});
  executor.forward(release);
  executor.commit(release, StepMasks{});
  return out;
}

}  // namespace

TEST_CASE("cuda walls: token ids out of range reach no memory and move no neighbour", "[cuda][walls]") {
  const bool eager = GENERATE(false, true);
  const Golden golden = read_golden("qwen3");
  MemoryCheckpoint file = tiny_safetensors(golden);
  const ModelConfig config = read_model_config(file).value();
  REQUIRE(config.vocab == 320);
  DeviceShape shape;
  shape.slots = 2, shape.max_rows = 64, shape.max_draft_tokens = 3;
  const auto executor = make_executor(file, config, true, eager, shape);
  const auto clean = neighbour_of(*executor, config.vocab, false, 1), beside = neighbour_of(*executor, config.vocab, true, 2);
  REQUIRE(clean.size() >= 12);
  CHECK(beside == clean);
}
