// F8_E4M3 weights as the kernels see them: codes in registers to BF16, which holds each exactly, and the scale of an
// element. Knows no launch.
//
// NaN codes (0x7f, 0xff) come out as +-480: when a weight is loaded, they turn the scales of their place into NaN
// (f8_weight.cu), so that nothing is hidden and no product pays for the test.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_weight.h"

namespace slipstream::cuda {

/// Codes 0 and 1 of a word as a BF16 pair `low`, 2 and 3 as `high`. A BF16 with the code's sign, exponent and mantissa at
/// its own places is 2^-120 of the value, subnormals included; a fused product by 2^120 is exact. Four instructions a pair
/// on every architecture: cvt gives F16 only, whose exponents would have to be moved likewise.
__device__ __forceinline__ void e4m3_to_bf16(uint32_t codes, uint32_t& low, uint32_t& high) {
  // bytes sign-extended to halves: bit 15 is then the sign after the shift as well
  asm("{.reg .b32 a, b;\n"
      "prmt.b32 a, %2, 0, 0x9180;\n"
      "prmt.b32 b, %2, 0, 0xb3a2;\n"
      "shl.b32 a, a, 4;\n"
      "shl.b32 b, b, 4;\n"
      "and.b32 a, a, 0x87f087f0;\n"
      "and.b32 b, b, 0x87f087f0;\n"
      "fma.rn.bf16x2 %0, a, %3, %4;\n"
      "fma.rn.bf16x2 %1, b, %3, %4;}"
      : "=r"(low), "=r"(high)
      : "r"(codes), "r"(0x7b807b80u), "r"(0x80008000u));  // 2^120, and -0, which changes no sign
}

/// The same for the two codes in the low half of a word.
__device__ __forceinline__ uint32_t e4m3_pair_to_bf16(uint32_t codes) {
  uint32_t out;
  asm("{.reg .b32 a;\n"
      "prmt.b32 a, %1, 0, 0x9180;\n"
      "shl.b32 a, a, 4;\n"
      "and.b32 a, a, 0x87f087f0;\n"
      "fma.rn.bf16x2 %0, a, %2, %3;}"
      : "=r"(out)
      : "r"(codes), "r"(0x7b807b80u), "r"(0x80008000u));
  return out;
}

/// One code as a float.
__device__ __forceinline__ float e4m3_to_float(uint32_t code) {
  return __uint_as_float((code & 0x80u) << 24 | __float_as_uint(__uint_as_float((code & 0x7fu) << 20) * 0x1p120f));
}

__device__ __forceinline__ float f8_scale(const F8Scales& s, int64_t row, int64_t k) {
  return s.data[row / s.group_rows * s.k_blocks + (s.first + k) / s.block_cols];
}

}  // namespace slipstream::cuda
