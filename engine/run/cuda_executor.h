// One rank on a GPU: sequence state lives in ResidentSlots, steps are launches only. Decode and verify steps run as two
// captured graphs (forward; commit), everything else eagerly through the same code. Knows no scheduler and no request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/run/device_slots.h"
#include "engine/run/graph_keys.h"
#include "engine/run/model_executor.h"

namespace slipstream {

struct CudaStepOptions {
  int32_t context_tokens = 0;  // longest sequence, prompt and output
  bool eager = false;          // launch ops one by one, never from captured graphs
  bool ngram = false;          // draft by prompt look-up on the device
  int32_t ngram_min = 2, ngram_max = 4;
  /// Time for capturing the usual graphs before the first step; 0: each is captured when its step first comes.
  double capture_seconds = 0;
  std::function<void(int32_t done, int32_t all)> capture_progress = {};  // may be empty
};

/// What capturing before the first step came to. Graphs left over are captured when their steps come.
struct CaptureReport {
  int32_t captured = 0, left = 0;  // forward and commit graphs
  double seconds = 0;
  int64_t bytes = 0;               // device memory that the driver took meanwhile
};

/// Device bytes that usual_graphs will take, about: a measured mean per graph and layer.
int64_t graph_bytes_estimate(const DeviceShape& shape, const CudaStepOptions& options, int32_t layers);

/// Device bytes that an executor takes beside model, cache and graphs. `dry` is the dry twin of a CUDA backend.
int64_t cuda_step_bytes(Ops& dry, const DeviceShape& shape, const CudaStepOptions& options, int32_t vocab);

/// parts.ops is a CUDA backend; parts.drafter is not read. Null in a build without CUDA.
std::unique_ptr<StepExecutor> make_cuda_executor(RankParts parts, const DeviceShape& shape, const CudaStepOptions& options,
                                                 CaptureReport* report = nullptr);

}  // namespace slipstream
