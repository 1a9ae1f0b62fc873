// How long a context and how many cache blocks are served: arithmetic over memory, limits and the model's shape.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "engine/base/result.h"

namespace slipstream {

struct CachePlan {
  int32_t context = 0;       // tokens of prompt and output
  int32_t blocks = 0;        // of the one cache group
  int64_t bytes = 0;
  std::string reason;        // why these numbers, for the log
};

/// In host memory (server/memory_plan.h is a GPU's). `block_bytes`: K and V of one block over all layers. The cache may
/// take gpu-memory-utilization of `memory_bytes`, what is free. Refuses a context above the model's, and memory that does
/// not hold one sequence, with the numbers.
Result<CachePlan> plan_cache(const EngineConfig& config, int32_t max_num_seqs, int32_t model_context, int64_t block_bytes,
                             int64_t memory_bytes);

/// Bytes that this process may still take: the smaller of free memory and the control group's headroom.
int64_t available_memory_bytes();

}  // namespace slipstream
