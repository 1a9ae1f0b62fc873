// BF16 and F16 products with few activation rows (linear_float.cuh), and with any number in a deterministic context.
#include "kernels/cuda/linear_float.cuh"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/linear_launch.cuh"

namespace slipstream::cuda {
namespace {

/// Beside the shapes of every format: those of exact_shape for 9 to 64 rows, whose warps still share K.
#define SLIPSTREAM_FLOAT_SHAPES(X) SLIPSTREAM_LINEAR_SHAPES(X) X(2, 1, 8) X(4, 1, 8)

/// Of a weight, in a serial launch of many rows: so much stays in L2 while every group of activation rows passes.
constexpr int64_t kSerialBytes = int64_t{16} << 20;

void launch_shape(Context& context, DType dtype, const FloatLinearParams& p, const TileShape& s) {
#define SLIPSTREAM_CASE(NT, WR, WK)                                                                              \
  if (s.nt == NT && s.wr == WR && s.wk == WK)                                                                    \
    return launch_linear(context, dtype == DType::kBF16 ? float_linear_kernel<DType::kBF16, NT, WR, WK>          \
                                                        : float_linear_kernel<DType::kF16, NT, WR, WK>,          \
                         p, linear_grid(s, p.o), 32 * WR * WK, float_shared_bytes(s, p.o.m), "float linear");
  SLIPSTREAM_FLOAT_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  CHECK(false, "a block shape that is not built");
}

}  // namespace

size_t float_shared_bytes(const TileShape& s, int32_t m) {
#define SLIPSTREAM_CASE(NT, WR, WK) \
  if (s.nt == NT && s.wr == WR && s.wk == WK) return FloatKernel<DType::kBF16, NT, WR, WK>::shared_bytes(m, s.stages, s.serial);
  SLIPSTREAM_FLOAT_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  return 0;
}

void launch_float(Context& context, DType dtype, FloatLinearParams p, const TileShape& s) {
  p.stages = s.stages;
  p.o.splits = s.splits;
  p.o.serial = s.serial;
  if (!s.serial || p.o.m <= 8 * s.nt) return launch_shape(context, dtype, p, s);
  const int32_t block = 16 * s.wr;
  const auto rows = static_cast<int32_t>(std::max<int64_t>(kSerialBytes / (2 * int64_t{p.k}) / block * block, block));
  for (int32_t first = 0; first < p.o.n; first += rows) {
    FloatLinearParams part = p;
    part.weight += int64_t{first} * p.k;
    part.o.n = std::min(rows, p.o.n - first);
    part.o.out += first;
    if (p.o.bias != nullptr) part.o.bias += first;
    launch_shape(context, dtype, part, s);
  }
}

}  // namespace slipstream::cuda
