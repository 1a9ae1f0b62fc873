// See cache_size.h.
#include "server/cache_size.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace slipstream {
namespace {

int64_t read_number(const char* path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

std::string mib(int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

int64_t available_memory_bytes() {
  int64_t free_bytes = int64_t{4} << 30;
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    int64_t kib = 0;
    if (key == "MemAvailable:" && info >> kib) {
      free_bytes = kib * 1024;
      break;
    }
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  // cgroup v2; "max" reads as no number
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max", -1);
  if (limit > 0) free_bytes = std::min(free_bytes, limit - read_number("/sys/fs/cgroup/memory.current", 0));
  return std::max<int64_t>(free_bytes, 0);
}

Result<CachePlan> plan_cache(const EngineConfig& config, int32_t max_num_seqs, int32_t model_context, int64_t block_bytes,
                             int64_t memory_bytes) {
  CHECK(block_bytes > 0 && config.block_size > 0, "a cache block has a size");
  if (config.max_model_len > model_context)
    return invalid_argument("max-model-len " + std::to_string(config.max_model_len) + " is above the model's context of " +
                                std::to_string(model_context) + " tokens; lower it or leave it out",
                            "max-model-len");
  // Pages are touched lazily, so the system would grant it now and end the process later.
  const int64_t available = memory_bytes;
  if (config.kv_cache_memory_bytes > available)
    return invalid_argument("kv-cache-memory-bytes asks for " + mib(config.kv_cache_memory_bytes) + "; " + mib(available) +
                                " are available; lower it, or leave it out to take what fits",
                            "kv-cache-memory-bytes");
  const int64_t budget = config.kv_cache_memory_bytes > 0
                             ? config.kv_cache_memory_bytes
                             : static_cast<int64_t>(static_cast<double>(memory_bytes) * config.gpu_memory_utilization);
  const int64_t block = config.block_size;
  const int64_t fitting_blocks = std::min<int64_t>(budget / block_bytes, std::numeric_limits<int32_t>::max() / block);
  const int64_t wanted_context = config.max_model_len > 0 ? config.max_model_len : model_context;
  CachePlan plan;
  plan.context = static_cast<int32_t>(std::min(wanted_context, fitting_blocks * block));
  if (plan.context < 2 || (config.max_model_len > 0 && plan.context < config.max_model_len))
    return invalid_argument(
        "the cache of " + mib(budget) + " holds " + std::to_string(fitting_blocks * block) +
            " tokens; max-model-len " + std::to_string(wanted_context) + " needs " +
            mib((wanted_context + block - 1) / block * block_bytes) +
            "; lower max-model-len or raise kv-cache-memory-bytes",
        "max-model-len");
  // more than every slot can fill serves only the prefix cache: twice that is plenty
  const int64_t per_sequence = (plan.context + block - 1) / block;
  const int64_t useful = per_sequence * max_num_seqs * 2;
  plan.blocks = static_cast<int32_t>(config.kv_cache_memory_bytes > 0 ? fitting_blocks
                                                                      : std::min(fitting_blocks, useful));
  plan.bytes = plan.blocks * block_bytes;
  plan.reason = "context " + std::to_string(plan.context) + " of the model's " + std::to_string(model_context) +
                ", cache " + mib(plan.bytes) + " of the " + mib(budget) + " it may take, " +
                std::to_string(static_cast<int64_t>(plan.blocks) * block) + " tokens";
  return plan;
}

}  // namespace slipstream
