// What both ways of the AVX2 products share. For files compiled with -mavx2 only.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/quant_kernels.h"

namespace slipstream {

/// quant_few_avx2.cpp; QuantKernels::multiply_few.
void multiply_few_avx2(DType dtype, const uint8_t* tile, int64_t begin, int64_t end, const QuantRows& x, int64_t row0,
                       int32_t rows, float (*acc)[kPanelRows]);

namespace {

inline __m256i broadcast4(const int8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

/// Keeps a running sum in its register: left alone, GCC 12 regroups the additions into a tree, holds all products until
/// the end and spills them (2.5 times slower).
inline void in_register(__m256i& v) { asm("" : "+x"(v)); }

/// Groups whose products fit 16 bits together: 2 * depth * (2^bits - 1) * 127 < 2^15.
constexpr int depth_of(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

}  // namespace
}  // namespace slipstream
