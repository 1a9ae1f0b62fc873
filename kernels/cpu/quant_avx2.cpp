// Block-quantised products with AVX2. Lanes are output rows: one 32-byte vector holds 4 elements of 8 rows, one
// broadcast dword the same 4 elements of an activation row; vpmaddubsw multiplies, 16-bit sums stay exact for as many
// groups as the code width allows, vpmaddwd widens. Per 32-block, 8 rows and activation row of a 4-bit format: 8
// broadcasts, 8 multiplies, 7 adds, then 1 widening, 1 conversion and 2-3 float operations.
#if defined(__x86_64__)
#include "kernels/cpu/quant_dot_avx2.h"
#include "kernels/cpu/quant_kernels.h"
#include "kernels/cpu/quant_unpack_avx2.h"

namespace slipstream {
namespace {

void unpack(DType dtype, const uint8_t* a, const uint8_t* b, int64_t first, int32_t count, QuantPanel* panel) {
  with_format(dtype, [&]<DType D>() {
    using T = Shape<D>;
    const uint8_t* tiles[2] = {a, b};
    for (int t = 0; t < 2; ++t) {
      BlockCursor<D> cursor(tiles[t], first);
      for (int32_t block = 0; block < count; ++block, cursor.next()) {
        __m256i c[8];
        unpack_codes<D>(cursor.block, c);
        for (int q = 0; q < 8; ++q) _mm256_store_si256(reinterpret_cast<__m256i*>(&panel->code[block][q][32 * t]), c[q]);
        __m256 scale[2], min[2];
        unpack_scales<D>(cursor.header, cursor.block + T::kCodeBytes, scale, min);
        for (int g = 0; g < T::kGroups; ++g) {
          _mm256_store_ps(&panel->scale[block * T::kGroups + g][8 * t], scale[g]);
          if constexpr (T::kMin) _mm256_store_ps(&panel->min[block * T::kGroups + g][8 * t], min[g]);
        }
      }
    }
  });
}

/// R activation rows by 16 output rows.
template <bool Signed, int ZeroShift, int Groups, bool Min, int Bits, int R>
void product(const QuantPanel& panel, int32_t begin, int32_t end, int64_t first, const QuantRows& x, int64_t row0,
             float (*acc)[kPanelRows]) {
  constexpr int kGroupSteps = 8 / Groups;
  constexpr int kDepth = depth_of(Bits) < kGroupSteps ? depth_of(Bits) : kGroupSteps;
  const __m256i ones = _mm256_set1_epi16(1);
  const int64_t blocks = x.cols / kBlock;
  for (int32_t block = begin; block < end; ++block) {
    const int8_t* xq[R];
    int64_t at[R];
#pragma GCC unroll 4
    for (int m = 0; m < R; ++m) {
      at[m] = (row0 + m) * blocks + first + block;
      xq[m] = x.q + at[m] * kBlock;
    }
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g) {
      __m256i wide[R][2];
#pragma GCC unroll 8
      for (int step = 0; step < kGroupSteps; step += kDepth) {
        __m256i narrow[R][2];
#pragma GCC unroll 8
        for (int i = 0; i < kDepth; ++i) {
          const int q = g * kGroupSteps + step + i;
          const uint8_t* code = panel.code[block][q];
          const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(code));
          const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(code + 32));
          const __m256i u0 = Signed ? _mm256_abs_epi8(w0) : w0;
          const __m256i u1 = Signed ? _mm256_abs_epi8(w1) : w1;
#pragma GCC unroll 4
          for (int m = 0; m < R; ++m) {
            const __m256i v = broadcast4(xq[m] + 4 * q);
            const __m256i p0 = _mm256_maddubs_epi16(u0, Signed ? _mm256_sign_epi8(v, w0) : v);
            const __m256i p1 = _mm256_maddubs_epi16(u1, Signed ? _mm256_sign_epi8(v, w1) : v);
            narrow[m][0] = i == 0 ? p0 : _mm256_add_epi16(narrow[m][0], p0);
            narrow[m][1] = i == 0 ? p1 : _mm256_add_epi16(narrow[m][1], p1);
            in_register(narrow[m][0]);
            in_register(narrow[m][1]);
          }
        }
#pragma GCC unroll 4
        for (int m = 0; m < R; ++m)
          for (int t = 0; t < 2; ++t) {
            const __m256i sum = _mm256_madd_epi16(narrow[m][t], ones);
            wide[m][t] = step == 0 ? sum : _mm256_add_epi32(wide[m][t], sum);
            in_register(wide[m][t]);
          }
      }
      const float* scale = panel.scale[block * Groups + g];
      const float* min = panel.min[block * Groups + g];
#pragma GCC unroll 4
      for (int m = 0; m < R; ++m) {
        const __m256 d = _mm256_set1_ps(x.scale[at[m]]);
#pragma GCC unroll 2
        for (int t = 0; t < 2; ++t) {
          __m256i dot = wide[m][t];
          if constexpr (ZeroShift >= 0)
            dot = _mm256_sub_epi32(dot, _mm256_slli_epi32(_mm256_set1_epi32(x.sum[at[m] * Groups + g]), ZeroShift));
          __m256 sum = _mm256_loadu_ps(acc[m] + 8 * t);
          sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(_mm256_load_ps(scale + 8 * t), d), sum);
          if constexpr (Min)
            sum = _mm256_fmadd_ps(_mm256_load_ps(min + 8 * t), _mm256_set1_ps(x.scaled_sum[at[m] * Groups + g]), sum);
          _mm256_storeu_ps(acc[m] + 8 * t, sum);
        }
      }
    }
  }
}

template <bool Signed, int ZeroShift, int Groups, bool Min, int Bits>
void products(const QuantPanel& panel, int32_t begin, int32_t end, int64_t first, const QuantRows& x, int64_t row0,
              int32_t rows, float (*acc)[kPanelRows]) {
  int32_t m = 0;
  for (; m + 4 <= rows; m += 4)
    product<Signed, ZeroShift, Groups, Min, Bits, 4>(panel, begin, end, first, x, row0 + m, acc + m);
  for (; m + 2 <= rows; m += 2)
    product<Signed, ZeroShift, Groups, Min, Bits, 2>(panel, begin, end, first, x, row0 + m, acc + m);
  if (m < rows) product<Signed, ZeroShift, Groups, Min, Bits, 1>(panel, begin, end, first, x, row0 + m, acc + m);
}

void multiply(const QuantClass& kind, const QuantPanel& panel, int32_t begin, int32_t end, int64_t first,
              const QuantRows& x, int64_t row0, int32_t rows, float (*acc)[kPanelRows]) {
  if (kind.is_signed) return products<true, -1, 1, false, 8>(panel, begin, end, first, x, row0, rows, acc);
  switch (kind.code_bits) {
    case 2: return products<false, -1, 2, true, 2>(panel, begin, end, first, x, row0, rows, acc);
    case 3: return products<false, 2, 2, false, 3>(panel, begin, end, first, x, row0, rows, acc);
    case 4:
      if (kind.has_min) return products<false, -1, 1, true, 4>(panel, begin, end, first, x, row0, rows, acc);
      return products<false, 3, 1, false, 4>(panel, begin, end, first, x, row0, rows, acc);
    case 5:
      if (kind.has_min) return products<false, -1, 1, true, 5>(panel, begin, end, first, x, row0, rows, acc);
      return products<false, 4, 1, false, 5>(panel, begin, end, first, x, row0, rows, acc);
    default: return products<false, 5, 2, false, 6>(panel, begin, end, first, x, row0, rows, acc);
  }
}

}  // namespace

const QuantKernels& quant_kernels_avx2() {
  static constexpr QuantKernels table = {"avx2", unpack, multiply, multiply_few_avx2, 8};
  return table;
}

}  // namespace slipstream
#endif
