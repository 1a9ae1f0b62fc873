// See memory_plan.h.
#include "server/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace slipstream {
namespace {

constexpr BatchSize kCpuBatch{16, 512};
/// From what an 80 GB card takes down to what the smallest does.
constexpr BatchSize kGpuBatches[] = {{256, 8192}, {128, 4096}, {64, 2048}, {16, 512}};

/// A given number wins; one that is left open follows it where the default would contradict it.
BatchSize with_given(const EngineConfig& config, BatchSize batch) {
  if (config.max_num_seqs > 0) batch.max_num_seqs = config.max_num_seqs;
  if (config.max_num_batched_tokens > 0) batch.max_num_batched_tokens = config.max_num_batched_tokens;
  if (config.max_num_seqs > 0)
    batch.max_num_batched_tokens = std::max(batch.max_num_batched_tokens, batch.max_num_seqs);
  else
    batch.max_num_seqs = std::min(batch.max_num_seqs, batch.max_num_batched_tokens);
  return batch;
}

int64_t blocks_of(int64_t tokens, int64_t block) { return (tokens + block - 1) / block; }

std::string share_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", share);
  return text;
}

/// "weights 15.3 GiB, step buffers 1.2 GiB, …": what is not zero.
std::string list_text(const std::vector<MemoryLine>& lines) {
  std::string text;
  for (const MemoryLine& line : lines) {
    if (line.planned == 0) continue;
    std::string kind = line.kind;
    std::replace(kind.begin(), kind.end(), '_', ' ');
    text += (text.empty() ? "" : ", ") + kind + ' ' + bytes_text(line.planned);
  }
  return text;
}

std::string next_step(const EngineConfig& config, const MemoryNeeds& needs, int64_t allowed, const DeviceMemory& memory) {
  if (needs.weights + kDeviceReserveBytes <= allowed)
    return config.max_model_len > 0 ? "lower max-model-len, max-num-batched-tokens or max-num-seqs"
                                    : "lower max-num-batched-tokens or max-num-seqs";
  if (needs.weights + kDeviceReserveBytes <= memory.free) return "raise gpu-memory-utilization, or use a model in a smaller format";
  if (needs.weights + kDeviceReserveBytes <= memory.total) return "stop what else runs on this GPU";
  return "use a smaller model, or one in a smaller format";
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  char text[32];
  if (bytes >= int64_t{1} << 30)
    std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30));
  else
    std::snprintf(text, sizeof text, "%lld MiB", static_cast<long long>((bytes + (1 << 20) - 1) >> 20));
  return text;
}

BatchSize cpu_batch(const EngineConfig& config) { return with_given(config, kCpuBatch); }

std::vector<BatchSize> gpu_batches(const EngineConfig& config) {
  std::vector<BatchSize> out;
  for (const BatchSize& each : kGpuBatches) {
    const BatchSize batch = with_given(config, each);
    if (out.empty() || batch != out.back()) out.push_back(batch);
  }
  return out;
}

int64_t MemoryPlan::planned(std::string_view kind) const {
  for (const MemoryLine& line : lines)
    if (line.kind == kind) return line.planned;
  return 0;
}

int64_t MemoryPlan::needed() const {
  int64_t sum = 0;
  for (const MemoryLine& line : lines) sum += line.planned;
  return sum;
}

bool leaves_room(const MemoryPlan& plan) {
  const int64_t left = plan.allowed - plan.planned("weights") - plan.planned("reserve");
  return 4 * (plan.planned("step_buffers") + plan.planned("workspace") + plan.planned("slots") + plan.planned("graphs")) <= left;
}

Result<MemoryPlan> plan_memory(const EngineConfig& config, const BatchSize& batch, int32_t model_context,
                               const DeviceMemory& memory, const MemoryNeeds& needs) {
  CHECK(needs.block_bytes > 0 && config.block_size > 0, "a cache block has a size");
  if (config.max_model_len > model_context)
    return invalid_argument("max-model-len " + std::to_string(config.max_model_len) + " is above the model's context of " +
                                std::to_string(model_context) + " tokens; lower it or leave it out",
                            "max-model-len");
  const int64_t block = config.block_size;
  const int64_t held = memory.total - memory.free;
  const int64_t allowed =
      std::max<int64_t>(static_cast<int64_t>(static_cast<double>(memory.total) * config.gpu_memory_utilization) - held, 0);
  const int64_t fixed = needs.weights + needs.step_buffers + needs.workspace + needs.graphs + kDeviceReserveBytes;
  const int64_t cache_allowed = config.kv_cache_memory_bytes > 0 ? config.kv_cache_memory_bytes : allowed;
  // Bytes with a cache for one sequence of `context` tokens, which grow with the context.
  const auto cache_of = [&](int64_t context) { return blocks_of(context, block) * needs.block_bytes; };
  const auto fits = [&](int64_t context) {
    const int64_t cache = cache_of(context);
    const int64_t reserved = std::max(cache, config.kv_cache_memory_bytes);
    return cache <= cache_allowed && fixed + needs.slots(static_cast<int32_t>(context)) + reserved <= allowed;
  };
  const int64_t wanted = config.max_model_len > 0 ? config.max_model_len : model_context;
  const int64_t least = config.max_model_len > 0 ? config.max_model_len : std::min<int64_t>(block, model_context);

  MemoryPlan plan;
  plan.batch = batch;
  plan.allowed = allowed;
  const auto fill = [&](int64_t context, int64_t cache) {
    plan.lines = {{"weights", needs.weights, 0},
                  {"step_buffers", needs.step_buffers, 0},
                  {"workspace", needs.workspace, 0},
                  {"slots", needs.slots(static_cast<int32_t>(context)), 0},
                  {"graphs", needs.graphs, 0},
                  {"reserve", kDeviceReserveBytes, 0},
                  {"kv_cache", cache, 0}};
  };
  if (config.kv_cache_memory_bytes > 0 && cache_of(least) > config.kv_cache_memory_bytes)
    return invalid_argument("kv-cache-memory-bytes " + bytes_text(config.kv_cache_memory_bytes) + " is less than the " +
                                bytes_text(cache_of(least)) + " of one sequence of " + std::to_string(least) + " tokens; raise it, or " +
                                (config.max_model_len > 0 ? "lower max-model-len" : "leave it out"),
                            "kv-cache-memory-bytes");
  const int64_t start = fixed + needs.start_peak;
  const int64_t for_cache = allowed - fixed - needs.slots(static_cast<int32_t>(least));
  if (config.kv_cache_memory_bytes > 0 && start <= allowed && cache_of(least) <= for_cache && config.kv_cache_memory_bytes > for_cache)
    return invalid_argument("kv-cache-memory-bytes " + bytes_text(config.kv_cache_memory_bytes) + " is more than the " +
                                bytes_text(for_cache) + " that the model leaves of " + bytes_text(allowed) +
                                " (gpu-memory-utilization " + share_text(config.gpu_memory_utilization) + " of " +
                                bytes_text(memory.total) + ", of which " + bytes_text(held) + " are in use); lower it or leave it out",
                            "kv-cache-memory-bytes");
  if (!fits(least) || start > allowed) {
    fill(least, std::max(cache_of(least), config.kv_cache_memory_bytes));
    const bool by_start = start > plan.needed();
    return invalid_argument(
        "the model needs " + bytes_text(std::max(plan.needed(), start)) + " of GPU memory (" + list_text(plan.lines) +
            (by_start ? ", measuring products at the start " + bytes_text(needs.start_peak) : std::string()) + "), and " +
            bytes_text(allowed) + " may be taken: gpu-memory-utilization " + share_text(config.gpu_memory_utilization) + " of " +
            bytes_text(memory.total) + ", of which " + bytes_text(held) + " are in use; " +
            next_step(config, needs, allowed, memory),
        "gpu-memory-utilization");
  }
  // the largest whole number of blocks between what fits and what is wanted
  int64_t context = wanted;
  if (!fits(wanted)) {
    int64_t low = blocks_of(least, block), high = blocks_of(wanted, block);  // low fits, high does not
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fits(middle * block) ? low : high) = middle;
    }
    context = std::min(std::max(low * block, least), wanted);
  }
  plan.context = static_cast<int32_t>(context);
  const int64_t left = config.kv_cache_memory_bytes > 0 ? config.kv_cache_memory_bytes
                                                        : allowed - fixed - needs.slots(plan.context);
  const int64_t fitting = std::min<int64_t>(left / needs.block_bytes, std::numeric_limits<int32_t>::max() / block);
  // more than every slot can fill serves only the prefix cache: twice that is plenty
  const int64_t useful = blocks_of(context, block) * batch.max_num_seqs * 2;
  plan.blocks = static_cast<int32_t>(config.kv_cache_memory_bytes > 0 ? fitting : std::min(fitting, useful));
  fill(context, plan.blocks * needs.block_bytes);
  plan.reason = "context " + std::to_string(plan.context) + " of the model's " + std::to_string(model_context) + ", cache " +
                bytes_text(plan.blocks * needs.block_bytes) + " of the " + bytes_text(left) + " it may take, " +
                std::to_string(static_cast<int64_t>(plan.blocks) * block) + " tokens";
  return plan;
}

}  // namespace slipstream
