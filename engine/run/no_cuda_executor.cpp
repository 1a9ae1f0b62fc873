// The GPU executor of a build without CUDA: there is none.
#include "engine/run/cuda_executor.h"

namespace slipstream {

std::unique_ptr<StepExecutor> make_cuda_executor(RankParts, const DeviceShape&, const CudaStepOptions&, CaptureReport*) {
  return nullptr;
}

int64_t cuda_step_bytes(Ops&, const DeviceShape&, const CudaStepOptions&, int32_t) { return 0; }

int64_t graph_bytes_estimate(const DeviceShape&, const CudaStepOptions&, int32_t) { return 0; }

}  // namespace slipstream
