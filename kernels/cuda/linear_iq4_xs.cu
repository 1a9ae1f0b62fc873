// IQ4_XS products (linear_quant.cuh).
#include "kernels/cuda/linear_quant_launch.cuh"

namespace slipstream::cuda {
template void launch_quant_format<DType::kIQ4_XS>(Context&, QuantLinearParams, const TileShape&);
template size_t quant_format_shared_bytes<DType::kIQ4_XS>(const TileShape&, int32_t);
}  // namespace slipstream::cuda
