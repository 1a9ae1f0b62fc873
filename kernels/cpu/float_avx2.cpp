// Float products with AVX2: up to 4 activation rows by 16 output rows in registers over the whole of K.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/float_kernels.h"

namespace slipstream {
namespace {

template <DType D>
inline __m256 load_weights(const uint8_t* tile, int64_t k) {
  if constexpr (D == DType::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(tile + k * 32));
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tile + k * 16));
  if constexpr (D == DType::kF16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

template <DType D, int R>
void product(const uint8_t* a, const uint8_t* b, int64_t begin, int64_t end, const float* x, int64_t stride,
             float (*acc)[kPanelRows]) {
  __m256 sum[R][2];
#pragma GCC unroll 4
  for (int m = 0; m < R; ++m) {
    sum[m][0] = _mm256_loadu_ps(acc[m]);
    sum[m][1] = _mm256_loadu_ps(acc[m] + 8);
  }
  for (int64_t k = begin; k < end; ++k) {
    const __m256 w0 = load_weights<D>(a, k);
    const __m256 w1 = load_weights<D>(b, k);
#pragma GCC unroll 4
    for (int m = 0; m < R; ++m) {
      const __m256 v = _mm256_set1_ps(x[m * stride + k]);
      sum[m][0] = _mm256_fmadd_ps(w0, v, sum[m][0]);
      sum[m][1] = _mm256_fmadd_ps(w1, v, sum[m][1]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < R; ++m) {
    _mm256_storeu_ps(acc[m], sum[m][0]);
    _mm256_storeu_ps(acc[m] + 8, sum[m][1]);
  }
}

template <DType D>
void products(const uint8_t* a, const uint8_t* b, int64_t begin, int64_t end, const float* x, int64_t stride,
              int32_t rows, float (*acc)[kPanelRows]) {
  int32_t m = 0;
  for (; m + 4 <= rows; m += 4) product<D, 4>(a, b, begin, end, x + m * stride, stride, acc + m);
  switch (rows - m) {
    case 3: return product<D, 3>(a, b, begin, end, x + m * stride, stride, acc + m);
    case 2: return product<D, 2>(a, b, begin, end, x + m * stride, stride, acc + m);
    case 1: return product<D, 1>(a, b, begin, end, x + m * stride, stride, acc + m);
    default: return;
  }
}

void multiply(DType dtype, const uint8_t* a, const uint8_t* b, int64_t begin, int64_t end, const float* x,
              int64_t stride, int32_t rows, float (*acc)[kPanelRows]) {
  if (dtype == DType::kF32) return products<DType::kF32>(a, b, begin, end, x, stride, rows, acc);
  if (dtype == DType::kF16) return products<DType::kF16>(a, b, begin, end, x, stride, rows, acc);
  return products<DType::kBF16>(a, b, begin, end, x, stride, rows, acc);
}

}  // namespace

const FloatKernels& float_kernels_avx2() {
  static constexpr FloatKernels table = {"avx2", multiply};
  return table;
}

}  // namespace slipstream
#endif
