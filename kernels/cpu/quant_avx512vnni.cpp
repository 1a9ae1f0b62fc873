// Block-quantised products with AVX-512 VNNI: the AVX2 panel, 16 output rows in one vector, vpdpbusd into 32 bits. The
// integer dots are exact and the float steps are those of AVX2, so the bits are equal.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/quant_kernels.h"

namespace slipstream {
namespace {

inline __m512i broadcast4(const int8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

/// R activation rows by 16 output rows. Signed codes are taken as code + 128 (Offset 7), so that they are unsigned.
template <bool Signed, int ZeroShift, int Groups, bool Min, int R>
void product(const QuantPanel& panel, int32_t begin, int32_t end, int64_t first, const QuantRows& x, int64_t row0,
             float (*acc)[kPanelRows]) {
  constexpr int kGroupSteps = 8 / Groups;
  constexpr int kOffset = Signed ? 7 : ZeroShift;
  const int64_t blocks = x.cols / kBlock;
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512 sum[R];
#pragma GCC unroll 8
  for (int m = 0; m < R; ++m) sum[m] = _mm512_loadu_ps(acc[m]);
  for (int32_t block = begin; block < end; ++block) {
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g) {
      __m512i dot[R];
#pragma GCC unroll 8
      for (int m = 0; m < R; ++m) {
        dot[m] = _mm512_setzero_si512();
        if constexpr (kOffset >= 0) {
          const int64_t at = ((row0 + m) * blocks + first + block) * Groups + g;
          dot[m] = _mm512_set1_epi32(-x.sum[at] * (1 << kOffset));
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < kGroupSteps; ++i) {
        const int q = g * kGroupSteps + i;
        __m512i w = _mm512_load_si512(panel.code[block][q]);
        if constexpr (Signed) w = _mm512_xor_si512(w, flip);
#pragma GCC unroll 8
        for (int m = 0; m < R; ++m)
          dot[m] = _mm512_dpbusd_epi32(dot[m], w, broadcast4(x.q + ((row0 + m) * blocks + first + block) * kBlock + 4 * q));
      }
      const __m512 scale = _mm512_load_ps(panel.scale[block * Groups + g]);
      const __m512 min = _mm512_load_ps(panel.min[block * Groups + g]);
#pragma GCC unroll 8
      for (int m = 0; m < R; ++m) {
        const int64_t at = (row0 + m) * blocks + first + block;
        const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scale[at]));
        sum[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[m]), both, sum[m]);
        if constexpr (Min) sum[m] = _mm512_fmadd_ps(min, _mm512_set1_ps(x.scaled_sum[at * Groups + g]), sum[m]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < R; ++m) _mm512_storeu_ps(acc[m], sum[m]);
}

template <bool Signed, int ZeroShift, int Groups, bool Min>
void products(const QuantPanel& panel, int32_t begin, int32_t end, int64_t first, const QuantRows& x, int64_t row0,
              int32_t rows, float (*acc)[kPanelRows]) {
  int32_t m = 0;
  for (; m + 8 <= rows; m += 8) product<Signed, ZeroShift, Groups, Min, 8>(panel, begin, end, first, x, row0 + m, acc + m);
  for (; m + 4 <= rows; m += 4) product<Signed, ZeroShift, Groups, Min, 4>(panel, begin, end, first, x, row0 + m, acc + m);
  for (; m + 2 <= rows; m += 2) product<Signed, ZeroShift, Groups, Min, 2>(panel, begin, end, first, x, row0 + m, acc + m);
  for (; m < rows; ++m) product<Signed, ZeroShift, Groups, Min, 1>(panel, begin, end, first, x, row0 + m, acc + m);
}

void multiply(const QuantClass& kind, const QuantPanel& panel, int32_t begin, int32_t end, int64_t first,
              const QuantRows& x, int64_t row0, int32_t rows, float (*acc)[kPanelRows]) {
  if (kind.is_signed) return products<true, -1, 1, false>(panel, begin, end, first, x, row0, rows, acc);
  if (kind.groups == 2) {
    if (kind.has_min) return products<false, -1, 2, true>(panel, begin, end, first, x, row0, rows, acc);
    if (kind.zero_shift == 2) return products<false, 2, 2, false>(panel, begin, end, first, x, row0, rows, acc);
    return products<false, 5, 2, false>(panel, begin, end, first, x, row0, rows, acc);
  }
  if (kind.has_min) return products<false, -1, 1, true>(panel, begin, end, first, x, row0, rows, acc);
  if (kind.zero_shift == 3) return products<false, 3, 1, false>(panel, begin, end, first, x, row0, rows, acc);
  return products<false, 4, 1, false>(panel, begin, end, first, x, row0, rows, acc);
}

}  // namespace

const QuantKernels& quant_kernels_avx512vnni() {
  // one or two activation rows are bound by memory, not by arithmetic: AVX2's way without a panel serves them
  static const QuantKernels table = {"avx512vnni", quant_kernels_avx2().unpack, multiply,
                                     quant_kernels_avx2().multiply_few, 2};
  return table;
}

}  // namespace slipstream
#endif
