// The memory plan of one load on a GPU: runs the loading against the backend's dry twin for each batch size that comes
// into question. Owns no memory; knows the order of a load, no HTTP.
#pragma once

#include "engine/model/model.h"
#include "engine/run/cuda_executor.h"
#include "engine/run/device_slots.h"
#include "server/memory_plan.h"

namespace slipstream {

/// What a load is made of before its sizes are known.
struct DeviceLoad {
  const EngineConfig& config;
  Checkpoint& checkpoint;
  const ModelConfig& model;
  const Ops& ops;
  LoadOptions options;        // rows are filled in by size_load
  CudaStepOptions steps;      // context_tokens is filled in
  DType cache_dtype = DType::kBF16;
  int32_t draft_tokens = 0;
};

DeviceShape device_shape(const EngineConfig& config, const BatchSize& batch, int32_t draft_tokens);
/// Rows of the largest step and of its logits; `padded`: as captured graphs want them.
void size_load(const DeviceShape& shape, bool padded, LoadOptions* options);

struct DevicePlan {
  MemoryPlan memory;
  MemoryNeeds needs;          // of the batch that was chosen
  DeviceMemory device;
  int32_t block_tokens = 32;
};

/// Refuses what load_model refuses (missing tensors, formats) and what does not fit, before anything is loaded.
Result<DevicePlan> plan_device(const DeviceLoad& load);

/// The plan again when weights and work space are in place: what others took meanwhile comes off the cache.
Result<MemoryPlan> plan_again(const EngineConfig& config, const DevicePlan& plan, int32_t model_context, int64_t free_now);

}  // namespace slipstream
