// From a shape chosen at run time to a kernel of linear_quant.cuh; included by the instantiation files only.
#pragma once

#include "kernels/check.h"
#include "kernels/cuda/linear_launch.cuh"
#include "kernels/cuda/linear_quant.cuh"

namespace slipstream::cuda {

template <DType D>
void launch_quant_format(Context& context, QuantLinearParams p, const TileShape& s) {
  p.stages = s.stages;
  p.o.splits = s.splits;
  p.o.serial = s.serial;
#define SLIPSTREAM_CASE(NT, WR, WK)                                                                             \
  if (s.nt == NT && s.wr == WR && s.wk == WK)                                                                   \
    return launch_linear(context, quant_linear_kernel<D, NT, WR, WK>, p, linear_grid(s, p.o), 32 * WR * WK,     \
                         QuantKernel<D, NT, WR, WK>::shared_bytes(p.o.m, s.stages, s.serial), "quantised linear");
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  CHECK(false, "a block shape that is not built");
}

template <DType D>
size_t quant_format_shared_bytes(const TileShape& s, int32_t m) {
#define SLIPSTREAM_CASE(NT, WR, WK) \
  if (s.nt == NT && s.wr == WR && s.wk == WK) return QuantKernel<D, NT, WR, WK>::shared_bytes(m, s.stages, s.serial);
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  return 0;
}

}  // namespace slipstream::cuda
