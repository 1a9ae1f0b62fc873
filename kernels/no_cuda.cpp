// The CUDA backend of a build without nvcc: it says so.
#include "kernels/ops.h"

namespace slipstream {

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions&) { return nullptr; }

bool cuda_available(std::string* why) {
  if (why != nullptr) *why = "this build has no CUDA kernels (configure with -DSLIPSTREAM_CUDA=ON)";
  return false;
}

}  // namespace slipstream
