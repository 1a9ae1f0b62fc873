// BF16 and F16 products with few activation rows (linear_float.cuh).
#include "kernels/cuda/linear_float.cuh"

#include "kernels/check.h"
#include "kernels/cuda/linear_launch.cuh"

namespace slipstream::cuda {

size_t float_shared_bytes(const TileShape& s, int32_t m) {
#define SLIPSTREAM_CASE(NT, WR, WK) \
  if (s.nt == NT && s.wr == WR && s.wk == WK) return FloatKernel<DType::kBF16, NT, WR, WK>::shared_bytes(m, s.stages, s.serial);
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  return 0;
}

void launch_float(Context& context, DType dtype, FloatLinearParams p, const TileShape& s) {
  p.stages = s.stages;
  p.o.splits = s.splits;
  p.o.serial = s.serial;
#define SLIPSTREAM_CASE(NT, WR, WK)                                                                              \
  if (s.nt == NT && s.wr == WR && s.wk == WK)                                                                    \
    return launch_linear(context, dtype == DType::kBF16 ? float_linear_kernel<DType::kBF16, NT, WR, WK>          \
                                                        : float_linear_kernel<DType::kF16, NT, WR, WK>,          \
                         p, linear_grid(s, p.o), 32 * WR * WK, float_shared_bytes(s, p.o.m), "float linear");
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  CHECK(false, "a block shape that is not built");
}

}  // namespace slipstream::cuda
