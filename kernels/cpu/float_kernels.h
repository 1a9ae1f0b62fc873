// Products of F32, F16, BF16 and F8_E4M3 tiles with float activations: acc[m][row] = fma chain over elements in ascending order.
#pragma once

#include <cstdint>

#include "kernels/cpu/quant_kernels.h"

namespace slipstream {

struct FloatKernels {
  const char* name;
  /// Continues acc[m][row] over elements [begin, end) for activation rows x + m * stride, m < rows. Tiles as in
  /// pack_float_tile; b may equal a.
  void (*multiply)(DType dtype, const uint8_t* a, const uint8_t* b, int64_t begin, int64_t end, const float* x,
                   int64_t stride, int32_t rows, float (*acc)[kPanelRows]);
  /// The same for F8_E4M3 codes, where all of [begin, end) has the scales [kPanelRows]: a weight is code * scale, rounded.
  void (*multiply_f8)(const uint8_t* a, const uint8_t* b, const float* scales, int64_t begin, int64_t end, const float* x,
                      int64_t stride, int32_t rows, float (*acc)[kPanelRows]);
};

const FloatKernels& float_kernels_scalar();
const FloatKernels& float_kernels_avx2();

}  // namespace slipstream
