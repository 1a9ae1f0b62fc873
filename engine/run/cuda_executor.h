// One rank on a GPU: sequence state lives in ResidentSlots, steps are launches only. Decode and verify steps run as two
// captured graphs (forward; commit), everything else eagerly through the same code. Knows no scheduler and no request.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "engine/run/device_slots.h"
#include "engine/run/model_executor.h"

namespace slipstream {

/// Rows of a captured step that has `rows`: 1, 2, 4, 8, 16, 24, 32, … At most 8 rows of padding, and few graphs. The model
/// is loaded for as many.
inline int32_t padded_rows(int32_t rows) {
  if (rows <= 8) return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows)));
  return (rows + 7) / 8 * 8;
}

struct CudaStepOptions {
  int32_t context_tokens = 0;  // longest sequence, prompt and output
  bool eager = false;          // launch ops one by one, never from captured graphs
  bool ngram = false;          // draft by prompt look-up on the device
  int32_t ngram_min = 2, ngram_max = 4;
};

/// parts.ops is a CUDA backend; parts.drafter is not read. Null in a build without CUDA.
std::unique_ptr<StepExecutor> make_cuda_executor(RankParts parts, const DeviceShape& shape, const CudaStepOptions& options);

}  // namespace slipstream
