// E4M3 codes to F16 pairs, which hold them exactly: NaN stays NaN. One instruction per pair from SM89 on, integer and
// F16 arithmetic before. Knows codes in registers, no tensor.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace slipstream::cuda {

/// Codes in the high bytes of both halves (the low bytes are ignored) as two F16. An F16 with the code's sign, exponent and
/// mantissa at its own places is 2^-8 of the value, subnormals included; only the NaN code would come out as 480.
__device__ __forceinline__ uint32_t e4m3_high_bytes_generic(uint32_t word) {
  const uint32_t placed = (word & 0x80008000u) | ((word & 0x7f007f00u) >> 1);
  const __half2 value = __hmul2(*reinterpret_cast<const __half2*>(&placed), __half2half2(__ushort_as_half(0x5c00)));  // 256
  const uint32_t bits = *reinterpret_cast<const uint32_t*>(&value);
  return bits | __heq2_mask(__habs2(value), __half2half2(__ushort_as_half(0x5f80)));  // 480
}

__device__ __forceinline__ void e4m3_widen_generic(uint32_t codes, uint32_t& low, uint32_t& high) {
  low = e4m3_high_bytes_generic(__byte_perm(codes, 0, 0x1404));
  high = e4m3_high_bytes_generic(__byte_perm(codes, 0, 0x3424));
}

__device__ __forceinline__ void e4m3_split_generic(uint32_t codes, uint32_t& even, uint32_t& odd) {
  even = e4m3_high_bytes_generic(codes << 8);
  odd = e4m3_high_bytes_generic(codes);
}

/// Codes 0 and 1 of a word as F16 pair `low`, 2 and 3 as `high`.
__device__ __forceinline__ void e4m3_widen(uint32_t codes, uint32_t& low, uint32_t& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("{.reg .b16 l, h;\n"
      "mov.b32 {l, h}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, l;\n"
      "cvt.rn.f16x2.e4m3x2 %1, h;}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
#else
  e4m3_widen_generic(codes, low, high);
#endif
}

/// Codes 0 and 2 as F16 pair `even`, 1 and 3 as `odd`.
__device__ __forceinline__ void e4m3_split(uint32_t codes, uint32_t& even, uint32_t& odd) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  e4m3_widen(__byte_perm(codes, 0, 0x3120), even, odd);
#else
  e4m3_split_generic(codes, even, odd);
#endif
}

}  // namespace slipstream::cuda
