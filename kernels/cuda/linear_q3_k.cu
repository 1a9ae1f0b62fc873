// Q3_K products (linear_quant.cuh).
#include "kernels/cuda/linear_quant_launch.cuh"

namespace slipstream::cuda {
template void launch_quant_format<DType::kQ3_K>(Context&, QuantLinearParams, const TileShape&);
template size_t quant_format_shared_bytes<DType::kQ3_K>(const TileShape&, int32_t);
}  // namespace slipstream::cuda
