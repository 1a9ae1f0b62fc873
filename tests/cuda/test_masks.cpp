// Token masks on their way to the device: through TokenMasks and a captured draw against the sorting oracle, and through whole
// executors against the CPU's.
#include <cstring>
#include <random>

#include "kernels/cuda/graph.h"
#include "kernels/cuda/token_masks.h"
#include "kernels/sample_kernels.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/executor_fixture.h"

using namespace slipstream;
using namespace slipstream::cuda;
using namespace slipstream::cuda::test;
using namespace slipstream::test;

namespace {

using Mask = std::vector<uint32_t>;

bool allows(const Mask& mask, int32_t token) { return mask.empty() || (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1u) != 0; }

/// One of: none, random bits, few bits, a single token, nothing at all.
Mask random_mask(std::mt19937& rng, int32_t vocab, int kind) {
  if (kind == 0) return {};
  Mask mask((static_cast<size_t>(vocab) + 31) / 32);
  if (kind <= 2)
    for (uint32_t& word : mask) word = kind == 1 ? static_cast<uint32_t>(rng()) : static_cast<uint32_t>(rng() & rng() & rng() & rng());
  if (kind == 3) {
    const auto token = static_cast<size_t>(rng() % static_cast<uint32_t>(vocab));
    mask[token / 32] = 1u << (token % 32);
  }
  return mask;
}

}  // namespace

TEST_CASE("cuda masks: a captured draw follows each step's masks", "[cuda][masks]") {
  Context context(0);
  const int32_t vocab = GENERATE(31, 500, 4099);
  constexpr int32_t kRows = 9;
  std::mt19937 rng(5);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(static_cast<size_t>(kRows * vocab));
  for (float& x : logits) x = normal(rng);
  const Buffer device_logits = to_device(context, logits);
  Buffer scratch = context.allocate(sample_scratch_bytes(kRows, vocab));
  Buffer out = context.allocate(kRows * sizeof(SampledToken));
  Buffer laws = context.allocate(kRows * sizeof(DeviceSampleRow));
  TokenMasks masks(context, kRows, vocab);
  const SampleArgs args{device_logits.as<float>(), kRows, vocab, laws.as<DeviceSampleRow>(), out.as<SampledToken>(), scratch.data(), kRows,
                        SampleVariant::kFull};
  const Graph graph(context, [&] {
    masks.apply(laws.as<DeviceSampleRow>(), kRows);
    sample(context, args);
  });
  int32_t masked = 0, empty = 0;
  for (int32_t step = 0; step < 60; ++step) {
    std::vector<Mask> of_step;
    if (step % 4 != 3)  // every fourth step has none, which must undo the one before
      for (int32_t r = 0; r < 1 + step % kRows; ++r) of_step.push_back(random_mask(rng, vocab, static_cast<int>(rng() % 5)));
    std::vector<SampleRow> host(kRows);
    std::vector<DeviceSampleRow> device(kRows);
    for (size_t r = 0; r < kRows; ++r) {
      host[r].position = device[r].position = step;
      host[r].seed = device[r].seed = r;
      host[r].temperature = device[r].temperature = r % 3 == 0 ? 0.0f : 1.0f;
      if (r % 2 == 0) host[r].top_p = device[r].top_p = 0.8f;
      if (r % 4 == 1) host[r].top_k = device[r].top_k = 5;
      host[r].top_logprobs = device[r].top_logprobs = static_cast<int32_t>(r) - 1;
      if (r < of_step.size() && !of_step[r].empty()) host[r].mask = of_step[r].data(), ++masked;
    }
    std::vector<SampledToken> expected(kRows), drawn(kRows);
    reference_sample({logits.data(), kRows, vocab, host.data(), expected.data()});
    check(cudaMemcpyAsync(laws.data(), device.data(), laws.bytes(), cudaMemcpyHostToDevice, context.stream()), "laws");
    masks.upload(of_step);
    graph.replay(context);
    check(cudaMemcpyAsync(drawn.data(), out.data(), out.bytes(), cudaMemcpyDeviceToHost, context.stream()), "draws");
    context.synchronize();
    for (size_t r = 0; r < kRows; ++r) {
      INFO("vocab " << vocab << " step " << step << " row " << r);
      REQUIRE(drawn[r].token == expected[r].token);
      REQUIRE(drawn[r].non_finite == expected[r].non_finite);
      REQUIRE(std::memcmp(&drawn[r].logprob, &expected[r].logprob, 4) == 0);
      if (host[r].mask != nullptr && drawn[r].token >= 0) REQUIRE(allows(of_step[r], drawn[r].token));
      empty += host[r].mask != nullptr && drawn[r].token < 0;
    }
  }
  CHECK(masked > 100);
  CHECK(empty > 10);  // a row that may draw nothing is reported like a non-finite one
}

TEST_CASE("cuda masks: executors draw the CPU's tokens under masks, from graphs and eagerly", "[cuda][masks][models]") {
  const bool eager = GENERATE(false, true);
  const Golden golden = read_golden("qwen3");
  MemoryCheckpoint file = tiny_safetensors(golden);
  const ModelConfig config = read_model_config(file).value();
  DeviceShape shape;
  shape.slots = 5, shape.max_rows = 64, shape.max_draft_tokens = 3;
  const auto cpu = make_executor(file, config, false, false, shape), gpu = make_executor(file, config, true, eager, shape);
  std::mt19937 rng(9);
  int32_t masked = 0, ended_by_mask = 0, verified = 0;
  for (uint64_t step = 1; step <= 40; ++step) {
    StepPlan plan;
    plan.step = step;
    plan.commit = step % 3 == 0 ? CommitVariant::kFull : CommitVariant::kSampled;  // masks make it the full one
    for (int32_t slot = 0; slot < 5; ++slot) {
      if (step == 1) {
        OpenSlot open;
        open.slot = slot, open.generation = 1;
        for (int32_t t = 0; t < 9 + slot; ++t) open.history.push_back((t * 31 + slot * 7) % config.vocab);
        open.prompt_tokens = static_cast<int32_t>(open.history.size());
        open.remaining_tokens = 100;
        open.sampling.temperature = slot == 0 ? 0.0f : 0.9f;
        open.sampling.seed = static_cast<uint64_t>(slot);
        plan.commands.push_back(open);
        plan.commands.push_back(GrantBlocks{slot, 0, {slot * 4, slot * 4 + 1, slot * 4 + 2, slot * 4 + 3}});
      }
      Span span;
      span.slot = slot, span.generation = 1;
      if (step == 1) {
        span.kind = SpanKind::kPrefill, span.rows = 9 + slot, span.logits = LogitsWanted::kLast;
      } else {
        span.kind = SpanKind::kVerify, span.rows = 1 + static_cast<int32_t>(rng() % 4), span.logits = LogitsWanted::kAll;
        span.start = 128;
        for (int32_t i = 1; i < span.rows; ++i) span.supplied_drafts.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(config.vocab)));
        if (rng() % 2 == 0) span.supplied_drafts.clear();  // then fewer rows run than the plan counts
      }
      plan.total_rows += span.rows;
      plan.spans.push_back(span);
    }
    StepMasks masks;
    if (step % 3 != 1)
      for (const Span& span : plan.spans)
        for (int32_t i = 0; i < logit_rows_of(span); ++i)
          masks.rows.push_back(random_mask(rng, config.vocab, step == 30 && span.slot == 2 ? 4 : static_cast<int>(rng() % 4)));
    cpu->forward(plan);
    gpu->forward(plan);
    const StepResult want = cpu->commit(plan, masks), got = gpu->commit(plan, masks);
    size_t first = 0;
    for (size_t s = 0; s < plan.spans.size(); ++s) {
      INFO("step " << step << " slot " << s << (eager ? " eager" : " graphs"));
      const SpanResult &a = want.spans[s], &b = got.spans[s];
      REQUIRE(b.emitted == a.emitted);
      REQUIRE((b.accepted == a.accepted && b.done == a.done && b.non_finite == a.non_finite && b.starved == a.starved));
      for (size_t i = 0; i < b.emitted.size() && !masks.rows.empty(); ++i) {
        REQUIRE(allows(masks.rows[first + i], b.emitted[i]));
        masked += !masks.rows[first + i].empty();
      }
      verified += b.drafted > 0;
      ended_by_mask += b.done == DoneReason::kNonFinite;
      first += static_cast<size_t>(logit_rows_of(plan.spans[s]));
    }
  }
  CHECK(masked > 40);
  CHECK(ended_by_mask > 0);
  CHECK(verified > 20);

  StepPlan plan;
  plan.step = 99;
  for (const auto& executor : {cpu.get(), gpu.get()}) {
    executor->forward(plan);
    CHECK_THROWS_AS(executor->commit(plan, StepMasks{{Mask(10)}}), DeviceError);  // no such row
  }
}
