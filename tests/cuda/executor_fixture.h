// A tiny model behind an executor, without an engine: plans are made by hand.
#pragma once

#include <memory>

#include "engine/run/cuda_executor.h"
#include "tests/cuda/feature_level.h"
#include "tests/model/golden_check.h"

namespace slipstream::cuda::test {

/// 32 blocks of float cache and 128 tokens of context; on the CPU, or from graphs or eagerly on a GPU.
inline std::unique_ptr<StepExecutor> make_executor(Checkpoint& file, const ModelConfig& config, bool cuda, bool eager, const DeviceShape& shape) {
  RankParts parts;
  parts.ops = cuda ? slipstream::test::gpu_ops() : make_cpu_ops({.threads = 1, .isa = ""});
  LoadOptions load;
  load.max_rows = shape.max_rows;
  load.max_logit_rows = padded_rows(shape.max_logit_rows());
  auto model = load_model(file, config, *parts.ops, load);
  REQUIRE(model.ok());
  parts.model = std::move(model).value();
  KvCacheShape kv;
  kv.groups = parts.model->cache_groups();
  kv.blocks = {32};
  kv.dtype = DType::kF32;
  auto cache = KvCache::create(*parts.ops, kv);
  REQUIRE(cache.ok());
  parts.kv = std::move(cache).value();
  parts.ops->warm_up(load.max_rows);
  if (cuda) return make_cuda_executor(std::move(parts), shape, {.context_tokens = 128, .eager = eager});
  return std::make_unique<ModelExecutor>(std::move(parts), shape);
}

}  // namespace slipstream::cuda::test
