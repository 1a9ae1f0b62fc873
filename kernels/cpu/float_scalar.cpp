// Float products in plain C++.
#include <cmath>
#include <cstring>

#include "kernels/cpu/float_kernels.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

float weight_at(DType dtype, const uint8_t* tile, int64_t k, int row) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, tile + (k * kTileRows + row) * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, tile + (k * kTileRows + row) * 2, 2);
  return dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

void multiply(DType dtype, const uint8_t* a, const uint8_t* b, int64_t begin, int64_t end, const float* x,
              int64_t stride, int32_t rows, float (*acc)[kPanelRows]) {
  for (int64_t k = begin; k < end; ++k)
    for (int row = 0; row < kPanelRows; ++row) {
      const float w = weight_at(dtype, row < kTileRows ? a : b, k, row % kTileRows);
      for (int32_t m = 0; m < rows; ++m) acc[m][row] = std::fma(w, x[m * stride + k], acc[m][row]);
    }
}

void multiply_f8(const uint8_t* a, const uint8_t* b, const float* scales, int64_t begin, int64_t end, const float* x,
                 int64_t stride, int32_t rows, float (*acc)[kPanelRows]) {
  for (int64_t k = begin; k < end; ++k)
    for (int row = 0; row < kPanelRows; ++row) {
      const float w = e4m3_to_f32((row < kTileRows ? a : b)[k * kTileRows + row % kTileRows]) * scales[row];
      for (int32_t m = 0; m < rows; ++m) acc[m][row] = std::fma(w, x[m * stride + k], acc[m][row]);
    }
}

}  // namespace

const FloatKernels& float_kernels_scalar() {
  static constexpr FloatKernels table = {"scalar", multiply, multiply_f8};
  return table;
}

}  // namespace slipstream
