// The start of a GPU: what the dry twin counts is what a load takes, to the byte; graphs captured before the first step give
// the tokens of those captured beside their first step.
#include <algorithm>
#include <vector>

#include "engine/run/cuda_executor.h"
#include "kernels/ops.h"
#include "tests/catch.h"
#include "tests/model/memory_checkpoint.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

ModelConfig small_config(bool tied) {
  ModelConfig c;
  c.architecture = "qwen3";
  c.layers = 3, c.hidden = 512, c.heads = 4, c.kv_heads = 2, c.head_dim = 128, c.ffn = 1536, c.vocab = 2048;
  c.context_length = 4096, c.norm_eps = 1e-6f, c.qk_norm = true, c.rope_dim = 128, c.rope_theta = 1e6f;
  c.first_window_layer = c.layers;
  c.tied_embedding = tied;
  return c;
}

constexpr int32_t kBlock = 32;

DeviceShape device_shape(int32_t slots, int32_t rows, int32_t drafts) {
  DeviceShape shape;
  shape.slots = slots, shape.block_tokens = kBlock, shape.max_rows = rows, shape.max_draft_tokens = drafts;
  return shape;
}

std::unique_ptr<Model> load_on(Ops& ops, const ModelConfig& config, const DeviceShape& shape, DType format) {
  MemoryCheckpoint none(CheckpointKind::kSafetensors);
  LoadOptions options;
  options.dummy = true, options.dummy_seed = 3, options.dummy_format = format;
  options.max_logit_rows = padded_rows(shape.max_logit_rows());
  options.max_rows = std::max(shape.max_rows, options.max_logit_rows);
  auto model = load_model(none, config, ops, options);
  INFO((model.ok() ? std::string() : model.error().message));
  REQUIRE(model.ok());
  ops.warm_up(options.max_rows);
  return std::move(*model);
}

RankParts parts_on(const ModelConfig& config, const DeviceShape& shape, DType format) {
  RankParts parts;
  parts.ops = make_cuda_ops({.resident_steps = true});
  parts.model = load_on(*parts.ops, config, shape, format);
  KvCacheShape kv;
  kv.groups = parts.model->cache_groups();
  kv.blocks = {shape.slots * 64};
  kv.block_tokens = kBlock;
  auto cache = KvCache::create(*parts.ops, kv);
  REQUIRE(cache.ok());
  parts.kv = std::move(*cache);
  return parts;
}

/// Prefill of different prompts, then greedy and sampled decode steps: every token that came out.
std::vector<int32_t> tokens_of(StepExecutor& executor, int32_t slots, int32_t vocab) {
  std::vector<int32_t> tokens;
  uint64_t number = 0;
  for (int32_t step = 0; step < 12; ++step) {
    StepPlan plan;
    plan.step = ++number;
    plan.commit = CommitVariant::kSampled;
    for (int32_t s = 0; s < slots; ++s) {
      const int32_t prompt = 5 + 7 * s;
      Span span;
      span.slot = s, span.generation = 1;
      span.logits = LogitsWanted::kLast;
      if (step == 0) {
        OpenSlot open;
        open.slot = s, open.generation = 1, open.prompt_tokens = prompt, open.remaining_tokens = 100;
        for (int32_t t = 0; t < prompt; ++t) open.history.push_back((t * 7919 + s * 131) % vocab);
        open.sampling.temperature = s % 2 == 0 ? 0.0f : 0.9f;
        open.sampling.seed = static_cast<uint64_t>(s);
        plan.commands.push_back(open);
        GrantBlocks grant;
        grant.slot = s;
        for (int32_t b = 0; b < 8; ++b) grant.blocks.push_back(s * 8 + b);
        plan.commands.push_back(grant);
        span.kind = SpanKind::kPrefill, span.rows = prompt;
      } else {
        span.kind = SpanKind::kDecode, span.start = prompt + step - 1, span.rows = 1;
      }
      plan.total_rows += span.rows;
      plan.spans.push_back(span);
    }
    executor.forward(plan);
    executor.launch_commit(plan, StepMasks{});
    for (const SpanResult& span : executor.take_result().spans) {
      REQUIRE(span.emitted.size() == 1);
      tokens.push_back(span.emitted[0]);
    }
  }
  StepPlan end;
  end.step = ++number;
  for (int32_t s = 0; s < slots; ++s) end.commands.push_back(ReleaseSlot{s, 1});
  executor.forward(end);
  executor.commit(end, StepMasks{});
  return tokens;
}

}  // namespace

TEST_CASE("cuda start: the dry twin counts what a load takes, to the byte") {
  for (const DType format : {DType::kBF16, DType::kF16, DType::kQ4_K, DType::kQ8_0})
    for (const auto& [slots, rows, drafts] : {std::tuple{4, 64, 0}, std::tuple{40, 1024, 0}, std::tuple{16, 256, 4}}) {
      const ModelConfig config = small_config(rows == 64);
      const DeviceShape shape = device_shape(slots, rows, drafts);
      const CudaStepOptions steps{.context_tokens = 1000, .ngram = drafts > 0};
      RankParts parts;
      parts.ops = make_cuda_ops({.resident_steps = true});
      auto dry = parts.ops->dry_twin();
      REQUIRE(dry != nullptr);
      const int64_t empty = parts.ops->allocated_bytes();
      REQUIRE(dry->allocated_bytes() == empty);
      auto dry_model = load_on(*dry, config, shape, format);
      CHECK(parts.ops->allocated_bytes() == empty);  // nothing was taken
      parts.model = load_on(*parts.ops, config, shape, format);
      INFO(dtype_info(format).name << ", " << slots << " slots, " << rows << " rows");
      CHECK(dry_model->resident_bytes() == parts.model->resident_bytes());
      CHECK(dry->allocated_bytes() == parts.ops->allocated_bytes());
      CHECK(dry->peak_bytes() == parts.ops->peak_bytes());
      CHECK(dry->allocated_bytes() > dry_model->resident_bytes());

      KvCacheShape kv;
      kv.groups = parts.model->cache_groups();
      kv.blocks = {8};
      kv.block_tokens = kBlock;
      auto cache = KvCache::create(*parts.ops, kv);
      REQUIRE(cache.ok());
      parts.kv = std::move(*cache);
      Ops& ops = *parts.ops;
      const int64_t before = ops.allocated_bytes();
      const int64_t planned = cuda_step_bytes(*dry, shape, steps, config.vocab);
      const auto executor = make_cuda_executor(std::move(parts), shape, steps);
      CHECK(ops.allocated_bytes() - before == planned);
      CHECK(planned > 0);
      dry_model.reset();
      dry.reset();  // before what it is the twin of
    }
}

TEST_CASE("cuda start: graphs captured before the first step give the tokens of those captured beside it") {
  const ModelConfig config = small_config(false);
  const DeviceShape shape = device_shape(20, 512, 0);
  std::vector<std::vector<int32_t>> tokens;
  for (const double seconds : {0.0, 20.0}) {
    CudaStepOptions steps{.context_tokens = 1500, .capture_seconds = seconds};
    int32_t last = 0, all = 0;
    steps.capture_progress = [&](int32_t done, int32_t of) {
      CHECK(done == last + 1);
      last = done, all = of;
    };
    CaptureReport report;
    RankParts parts = parts_on(config, shape, DType::kBF16);
    Ops& ops = *parts.ops;
    const auto executor = make_cuda_executor(std::move(parts), shape, steps, &report);
    if (seconds > 0) {
      // 1, 2, 4, 8, 16, 24 rows; contexts of 1,024 and the longest; commits greedy and sampled
      CHECK(report.captured == 6 * 2 + 6 * 2);
      CHECK(report.left == 0);
      CHECK(last == all);
      CHECK(all == 24);
      CHECK(report.seconds < 20);
    }
    const int64_t allocations = ops.allocations_after_warm_up();
    tokens.push_back(tokens_of(*executor, 3, config.vocab));
    tokens.push_back(tokens_of(*executor, 3, config.vocab));  // slots opened anew
    CHECK(ops.allocations_after_warm_up() == allocations);
  }
  CHECK(tokens[0] == tokens[1]);
  CHECK(tokens[0] == tokens[2]);
  CHECK(tokens[0] == tokens[3]);
  CHECK(std::ranges::any_of(tokens[0], [&](int32_t t) { return t != tokens[0][0]; }));
}

TEST_CASE("cuda start: no time for graphs leaves them to their steps") {
  const ModelConfig config = small_config(false);
  const DeviceShape shape = device_shape(4, 64, 0);
  CaptureReport report;
  const auto executor = make_cuda_executor(parts_on(config, shape, DType::kBF16), shape,
                                           {.context_tokens = 500, .capture_seconds = 1e-9}, &report);
  CHECK(report.captured <= 2);
  CHECK(report.left >= 2);
  CHECK(tokens_of(*executor, 3, config.vocab).size() == 36);
}

TEST_CASE("cuda start: memory that is not there is one line with both numbers") {
  const auto ops = make_cuda_ops({});
  const int64_t total = ops->memory().total;
  try {
    (void)ops->allocate(static_cast<size_t>(total) * 2);
    FAIL("twice the memory was given");
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    CHECK(text.find(std::to_string(total * 2)) != std::string::npos);
    CHECK(text.find("bytes are free") != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  }
  CHECK(ops->allocate(1 << 20).bytes() == 1 << 20);  // and the context lives
}
