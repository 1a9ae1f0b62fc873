// IQ4_NL products (linear_quant.cuh).
#include "kernels/cuda/linear_quant_launch.cuh"

namespace slipstream::cuda {
template void launch_quant_format<DType::kIQ4_NL>(Context&, QuantLinearParams, const TileShape&);
template size_t quant_format_shared_bytes<DType::kIQ4_NL>(const TileShape&, int32_t);
}  // namespace slipstream::cuda
