// One to a few activation rows with AVX2: a block's codes are unpacked to registers and multiplied at once with up to
// four rows. Decode runs at the memory's speed here; 8 rows cost about twice one row.
#if defined(__x86_64__)
#include "kernels/cpu/quant_dot_avx2.h"
#include "kernels/cpu/quant_unpack_avx2.h"

namespace slipstream {
namespace {

/// The dots of one group and R activation rows, with the codes still in registers. xq[m] is the row's block.
template <DType D, int R>
inline __attribute__((always_inline)) void group_dots(const __m256i c[8], int g, const int8_t* const xq[R],
                                                      __m256i wide[R]) {
  using T = Shape<D>;
  constexpr int kGroupSteps = 8 / T::kGroups;
  constexpr int kDepth = depth_of(T::kBits) < kGroupSteps ? depth_of(T::kBits) : kGroupSteps;
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int step = 0; step < kGroupSteps; step += kDepth) {
    __m256i narrow[R];
#pragma GCC unroll 8
    for (int i = 0; i < kDepth; ++i) {
      const int q = g * kGroupSteps + step + i;
      const __m256i u = T::kSigned ? _mm256_abs_epi8(c[q]) : c[q];
#pragma GCC unroll 4
      for (int m = 0; m < R; ++m) {
        const __m256i v = broadcast4(xq[m] + 4 * q);
        const __m256i p = _mm256_maddubs_epi16(u, T::kSigned ? _mm256_sign_epi8(v, c[q]) : v);
        narrow[m] = i == 0 ? p : _mm256_add_epi16(narrow[m], p);
        in_register(narrow[m]);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < R; ++m) {
      const __m256i sum = _mm256_madd_epi16(narrow[m], ones);
      wide[m] = step == 0 ? sum : _mm256_add_epi32(wide[m], sum);
      in_register(wide[m]);
    }
  }
}

/// How far ahead weights are asked for: the processor's own prefetch stops at page ends and starts anew in each tile.
constexpr int kPrefetchBytes = 1536;

template <DType D, int R>
void few_product(const uint8_t* tile, int64_t begin, int64_t end, const QuantRows& x, int64_t row0,
                 float (*acc)[kPanelRows]) {
  using T = Shape<D>;
  BlockCursor<D> cursor(tile, begin);
  const int64_t blocks = x.cols / kBlock;
  __m256 sum[R];
#pragma GCC unroll 4
  for (int m = 0; m < R; ++m) sum[m] = _mm256_loadu_ps(acc[m]);
  for (int64_t block = begin; block < end; ++block, cursor.next()) {
    const int8_t* xq[R];
    int64_t at[R];
#pragma GCC unroll 4
    for (int m = 0; m < R; ++m) {
      at[m] = (row0 + m) * blocks + block;
      xq[m] = x.q + at[m] * kBlock;
    }
    for (int line = 0; line < BlockCursor<D>::kBlockBytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(cursor.block + kPrefetchBytes + line), _MM_HINT_T0);
    __m256i c[8];
    unpack_codes<D>(cursor.block, c);
    __m256 scale[2], min[2];
    unpack_scales<D>(cursor.header, cursor.block + T::kCodeBytes, scale, min);
#pragma GCC unroll 2
    for (int g = 0; g < T::kGroups; ++g) {
      __m256i dot[R];
      group_dots<D, R>(c, g, xq, dot);
#pragma GCC unroll 4
      for (int m = 0; m < R; ++m) {
        if constexpr (T::kZeroShift >= 0)
          dot[m] = _mm256_sub_epi32(
              dot[m], _mm256_slli_epi32(_mm256_set1_epi32(x.sum[at[m] * T::kGroups + g]), T::kZeroShift));
        const __m256 both = _mm256_mul_ps(scale[g], _mm256_set1_ps(x.scale[at[m]]));
        sum[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[m]), both, sum[m]);
        if constexpr (T::kMin)
          sum[m] = _mm256_fmadd_ps(min[g], _mm256_set1_ps(x.scaled_sum[at[m] * T::kGroups + g]), sum[m]);
      }
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < R; ++m) _mm256_storeu_ps(acc[m], sum[m]);
}

}  // namespace

void multiply_few_avx2(DType dtype, const uint8_t* tile, int64_t begin, int64_t end, const QuantRows& x, int64_t row0,
                  int32_t rows, float (*acc)[kPanelRows]) {
  with_format(dtype, [&]<DType D>() {
    int32_t m = 0;
    for (; m + 4 <= rows; m += 4) few_product<D, 4>(tile, begin, end, x, row0 + m, acc + m);
    for (; m + 2 <= rows; m += 2) few_product<D, 2>(tile, begin, end, x, row0 + m, acc + m);
    if (m < rows) few_product<D, 1>(tile, begin, end, x, row0 + m, acc + m);
  });
}

}  // namespace slipstream
#endif
