// What a GPU will hold, before anything is loaded: sizes in, a plan or a refusal out. Arithmetic over bytes, limits and
// the model's context; must never know a device, a file or HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/base/result.h"

namespace slipstream {

/// Sequences at once and tokens of a step, as served.
struct BatchSize {
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  bool operator==(const BatchSize&) const = default;
};

/// What the flags say, and for what they leave open the CPU's defaults.
BatchSize cpu_batch(const EngineConfig& config);
/// The same for a GPU, largest first: where memory is short, a later one is taken. One entry when both are given.
std::vector<BatchSize> gpu_batches(const EngineConfig& config);

/// Bytes of everything beside the KV cache.
struct MemoryNeeds {
  int64_t weights = 0;
  int64_t step_buffers = 0;   // hidden rows, logits
  int64_t workspace = 0;      // of products and attention
  int64_t start_peak = 0;     // held besides while the start measures products; given back before the cache comes
  int64_t graphs = 0;
  std::function<int64_t(int32_t context)> slots;  // sequence state and sampling scratch; grows with the context
  int64_t block_bytes = 0;    // K and V of one cache block over all layers
};

struct DeviceMemory {
  int64_t total = 0;
  int64_t free = 0;           // with our own context open, before anything is loaded
};

/// One kind of memory, planned and, once loaded, measured; for the log, /v1/info and metrics.
struct MemoryLine {
  std::string kind;           // weights, step_buffers, workspace, slots, graphs, reserve, kv_cache
  int64_t planned = 0;
  int64_t actual = 0;
};

struct MemoryPlan {
  BatchSize batch;
  int32_t context = 0;        // tokens of prompt and output
  int32_t blocks = 0;
  int64_t allowed = 0;        // what may be taken in all
  std::vector<MemoryLine> lines;
  std::string reason;         // why this context and cache, for the log

  int64_t planned(std::string_view kind) const;
  int64_t needed() const;     // sum of the lines
};

/// For kernels that the driver loads later, and for its rounding of every allocation to whole pages of 2 MiB.
inline constexpr int64_t kDeviceReserveBytes = int64_t{512} << 20;

/// The cache takes what the rest leaves of gpu-memory-utilization (of all the memory, what others hold included), or
/// kv-cache-memory-bytes. Refuses, with what is needed, what may be taken and the next step, when not even one sequence
/// of one cache block (or of max-model-len) fits.
Result<MemoryPlan> plan_memory(const EngineConfig& config, const BatchSize& batch, int32_t model_context,
                               const DeviceMemory& memory, const MemoryNeeds& needs);

/// Whether a batch leaves enough for the cache: slots and buffers take at most a quarter of what weights leave.
bool leaves_room(const MemoryPlan& plan);

/// "15.3 GiB", "12 MiB": for messages.
std::string bytes_text(int64_t bytes);

}  // namespace slipstream
