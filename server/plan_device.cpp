// See plan_device.h.
#include "server/plan_device.h"

#include <algorithm>

#include "engine/cache/kv_cache.h"

namespace slipstream {
namespace {

/// Linear between two contexts, rounded up: device arrays grow with the context, each by whole tokens.
std::function<int64_t(int32_t)> between(int32_t low, int64_t low_bytes, int32_t high, int64_t high_bytes) {
  return [=](int32_t context) {
    if (high <= low) return high_bytes;
    const double share = static_cast<double>(context - low) / static_cast<double>(high - low);
    constexpr int64_t kAlignment = 1 << 16;  // of a few dozen arrays
    if (context >= high) return high_bytes;
    return low_bytes + static_cast<int64_t>(share * static_cast<double>(high_bytes - low_bytes)) + kAlignment;
  };
}

Result<MemoryNeeds> dry_needs(const DeviceLoad& load, const BatchSize& batch) {
  const DeviceShape shape = device_shape(load.config, batch, load.draft_tokens);
  LoadOptions options = load.options;
  size_load(shape, true, &options);
  options.progress = {};
  const std::unique_ptr<Ops> dry = load.ops.dry_twin();
  MemoryNeeds needs;
  SLIP_TRY(const std::unique_ptr<Model> model, load_model(load.checkpoint, load.model, *dry, options));
  const std::vector<CacheGroupSpec> groups = model->cache_groups();
  if (groups.size() != 1)
    return unsupported("the model needs " + std::to_string(groups.size()) + " cache groups; one is served yet");
  needs.block_bytes = KvCache::block_bytes(groups[0], load.config.block_size, load.cache_dtype);
  needs.weights = model->resident_bytes();
  needs.step_buffers = dry->allocated_bytes() - needs.weights;
  dry->warm_up(options.max_rows);
  needs.workspace = dry->allocated_bytes() - needs.weights - needs.step_buffers;
  needs.start_peak = dry->peak_bytes() - dry->allocated_bytes();

  const auto slots_at = [&](int32_t context) {
    CudaStepOptions steps = load.steps;
    steps.context_tokens = context;
    return cuda_step_bytes(*dry, shape, steps, load.model.vocab);
  };
  const int32_t longest = load.config.max_model_len > 0 ? load.config.max_model_len : load.model.context_length;
  const int32_t shortest = std::min(load.config.block_size, longest);
  needs.slots = between(shortest, slots_at(shortest), longest, slots_at(longest));
  CudaStepOptions steps = load.steps;
  steps.context_tokens = longest;
  needs.graphs = graph_bytes_estimate(shape, steps, load.model.layers);
  return needs;
}

}  // namespace

/// Rows of a step for tokens that constraints foresee, with or without speculation: two full spans of them, or one token each of
/// many choices. They cost logits of as many rows.
constexpr int32_t kSuppliedDrafts = 32;

DeviceShape device_shape(const EngineConfig& config, const BatchSize& batch, int32_t draft_tokens) {
  DeviceShape shape;
  shape.slots = batch.max_num_seqs;
  shape.block_tokens = config.block_size;
  shape.max_rows = batch.max_num_batched_tokens;
  shape.max_draft_tokens = draft_tokens;
  shape.max_supplied_drafts = kSuppliedDrafts;
  return shape;
}

void size_load(const DeviceShape& shape, bool padded, LoadOptions* options) {
  options->max_logit_rows = padded ? padded_rows(shape.max_logit_rows()) : shape.max_logit_rows();
  options->max_rows = std::max(shape.max_rows, options->max_logit_rows);
}

Result<DevicePlan> plan_device(const DeviceLoad& load) {
  const Ops::MemoryFacts facts = load.ops.memory();
  DevicePlan out;
  out.device = {facts.total, facts.free};
  out.block_tokens = load.config.block_size;
  const std::vector<BatchSize> batches = gpu_batches(load.config);
  for (size_t i = 0; i < batches.size(); ++i) {
    SLIP_TRY(out.needs, dry_needs(load, batches[i]));
    auto plan = plan_memory(load.config, batches[i], load.model.context_length, out.device, out.needs);
    const bool last = i + 1 == batches.size();
    if (!plan.ok() && last) return plan.error();
    if (!plan.ok() || (!last && !leaves_room(*plan))) continue;
    out.memory = std::move(*plan);
    break;
  }
  return out;
}

Result<MemoryPlan> plan_again(const EngineConfig& config, const DevicePlan& plan, int32_t model_context, int64_t free_now) {
  const int64_t loaded = plan.needs.weights + plan.needs.step_buffers + plan.needs.workspace + kDeviceReserveBytes;
  DeviceMemory device = plan.device;
  device.free = std::min(device.free, free_now + loaded);
  return plan_memory(config, plan.memory.batch, model_context, device, plan.needs);
}

}  // namespace slipstream
