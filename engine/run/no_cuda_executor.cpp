// The GPU executor of a build without CUDA: there is none.
#include "engine/run/cuda_executor.h"

namespace slipstream {

std::unique_ptr<StepExecutor> make_cuda_executor(RankParts, const DeviceShape&, const CudaStepOptions&) { return nullptr; }

}  // namespace slipstream
