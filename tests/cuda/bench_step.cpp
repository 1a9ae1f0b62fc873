// Whole steps of the Qwen3-8B shape (or SmolLM2-135M's) on one GPU: decode at several batch sizes from captured graphs, and a long prompt.
//
//   cuda_bench_step [bf16|fp8|q4_k|q8_0|q4_1 …] [--smollm2] [--layers N] [--context TOKENS] [--steps N] [--eager] [--deterministic]
// Prints median ms of a step over the stream's own clock (events around the step) and over the host's, and the host's share.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "engine/model/model.h"
#include "engine/run/cuda_executor.h"
#include "tests/cuda/bench_clock.h"
#include "tests/cuda/bench_model.h"

using namespace slipstream;
using namespace slipstream::cuda::bench;

namespace {

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<DType> formats;
  int32_t layers = 36, context = 1024, steps = 40, prompt = 8192;
  bool eager = false, small = false, deterministic = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "bf16") formats.push_back(DType::kBF16);
    else if (a == "fp8") formats.push_back(DType::kF8E4M3);
    else if (a == "q4_k") formats.push_back(DType::kQ4_K);
    else if (a == "q8_0") formats.push_back(DType::kQ8_0);
    else if (a == "q4_1") formats.push_back(DType::kQ4_1);
    else if (a == "--smollm2") small = true;
    else if (a == "--eager") eager = true;
    else if (a == "--deterministic") deterministic = true;
    else if (i + 1 < argc && a == "--layers") layers = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--context") context = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--steps") steps = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--prompt") prompt = std::stoi(argv[++i]);
    else return std::fprintf(stderr, "unknown argument %s\n", a.c_str()), 2;
  }
  if (formats.empty()) formats = {DType::kBF16};
  std::string why;
  if (!cuda_available(&why)) return std::fprintf(stderr, "no GPU: %s\n", why.c_str()), 1;
  constexpr int32_t kSlots = 64, kBlock = 32;
  for (const DType dtype : formats) {
    const ModelConfig config = stored_as(small ? smollm2(layers) : qwen3_8b(layers), dtype);
    const auto load_start = std::chrono::steady_clock::now();
    SharedBytesCheckpoint checkpoint(config, dtype);
    RankParts parts;
    parts.ops = make_cuda_ops({.deterministic = deterministic});
    LoadOptions load;
    load.max_rows = std::max(prompt, 512);
    load.max_logit_rows = kSlots;
    auto model = load_model(checkpoint, config, *parts.ops, load);
    if (!model.ok()) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
    parts.model = std::move(*model);
    KvCacheShape kv;
    kv.groups = parts.model->cache_groups();
    const int32_t each = (std::max(context, 0) + steps * 4 + 64) / kBlock + 2;
    kv.blocks = {std::max(kSlots * each, prompt / kBlock + 8)};
    kv.block_tokens = kBlock;
    auto cache = KvCache::create(*parts.ops, kv);
    if (!cache.ok()) return std::fprintf(stderr, "%s\n", cache.error().message.c_str()), 1;
    parts.kv = std::move(*cache);
    parts.ops->warm_up(load.max_rows);
    DeviceShape shape;
    shape.slots = kSlots, shape.block_tokens = kBlock, shape.max_rows = load.max_rows;
    auto* ops = parts.ops.get();
    auto executor = make_cuda_executor(std::move(parts), shape,
                                       {.context_tokens = std::max(prompt + 64, each * kBlock), .eager = eager});
    std::printf("%s: loaded in %.1f s\n", std::string(dtype_info(dtype).name).c_str(), since_ms(load_start) / 1e3);
    for (const KernelChoice& choice : ops->kernel_report())
      std::printf("  %-28s %s%s%s\n", choice.op.c_str(), choice.kernel.c_str(), choice.why.empty() ? "" : "; ", choice.why.c_str());

    uint64_t number = 0;
    uint32_t generation = 0;
    const auto open = [&](StepPlan& plan, int32_t slot, int32_t tokens, int32_t cached, int32_t budget) {
      OpenSlot o;
      o.slot = slot, o.generation = ++generation;
      for (int32_t t = 0; t < tokens; ++t) o.history.push_back((t * 7919 + slot * 131) % config.vocab);
      o.prompt_tokens = tokens, o.cached_tokens = cached, o.remaining_tokens = budget;
      o.sampling.temperature = 0;
      plan.commands.push_back(o);
      GrantBlocks grant;
      grant.slot = slot;
      for (int32_t b = 0; b < (tokens + budget) / kBlock + 1; ++b) grant.blocks.push_back(slot * each + b);
      plan.commands.push_back(grant);
    };
    for (const int32_t batch : {1, 8, 16, 32, 64}) {
      // the cache holds noise of earlier steps or zeros: values do not matter, and nothing is prefilled
      std::vector<double> wall, host;
      std::vector<uint32_t> generations;
      for (int32_t step = 0; step < steps; ++step) {
        StepPlan plan;
        plan.step = ++number;
        for (int32_t s = 0; s < batch; ++s) {
          if (step == 0) open(plan, s, context, context - 1, 2 * steps), generations.push_back(generation);
          Span span;
          span.slot = s, span.generation = generations[static_cast<size_t>(s)];
          span.kind = SpanKind::kDecode, span.start = context + step, span.rows = 1, span.logits = LogitsWanted::kLast;
          plan.spans.push_back(span);
        }
        plan.total_rows = batch;
        const auto start = std::chrono::steady_clock::now();
        executor->forward(plan);
        executor->launch_commit(plan, StepMasks{});
        const double launched = since_ms(start);
        const StepResult result = executor->take_result();
        if (result.spans.at(0).emitted.size() != 1) return std::fprintf(stderr, "a decode step emitted nothing\n"), 1;
        if (step >= 4) wall.push_back(since_ms(start)), host.push_back(launched);
      }
      std::printf("  decode, %2d sequences at %d: %.3f ms a step (best %.3f), host launches %.3f ms, %.0f tok/s\n", batch, context,
                  cuda::bench::median(wall), *std::ranges::min_element(wall), cuda::bench::median(host), batch / cuda::bench::median(wall) * 1e3);
      StepPlan release;
      release.step = ++number;
      for (int32_t s = 0; s < batch; ++s) release.commands.push_back(ReleaseSlot{s, generations[static_cast<size_t>(s)]});
      executor->forward(release);
      executor->commit(release, StepMasks{});
    }
    if (prompt > 0) {
      std::vector<double> wall;
      for (int32_t round = 0; round < 4; ++round) {
        StepPlan plan;
        plan.step = ++number;
        OpenSlot o;
        o.slot = 0, o.generation = ++generation;
        for (int32_t t = 0; t < prompt; ++t) o.history.push_back((t * 7919 + round) % config.vocab);
        o.prompt_tokens = prompt, o.remaining_tokens = 8, o.sampling.temperature = 0;
        plan.commands.push_back(o);
        GrantBlocks grant;
        for (int32_t b = 0; b < prompt / kBlock + 1; ++b) grant.blocks.push_back(b);
        plan.commands.push_back(grant);
        Span span;
        span.slot = 0, span.generation = generation, span.kind = SpanKind::kPrefill, span.rows = prompt, span.logits = LogitsWanted::kLast;
        plan.spans.push_back(span);
        plan.total_rows = prompt;
        const auto start = std::chrono::steady_clock::now();
        executor->forward(plan);
        executor->commit(plan, StepMasks{});
        if (round > 0) wall.push_back(since_ms(start));
        StepPlan release;
        release.step = ++number;
        release.commands.push_back(ReleaseSlot{0, generation});
        executor->forward(release);
        executor->commit(release, StepMasks{});
      }
      std::printf("  prompt of %d tokens in one step: %.1f ms\n", prompt, cuda::bench::median(wall));
    }
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_step: %s\n", error.what());
  return 1;
}
