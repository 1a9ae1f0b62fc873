// Float products with AVX2: up to 4 activation rows by 16 output rows in registers over the whole of K.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/float_kernels.h"

namespace slipstream {
namespace {

/// Eight codes of F8_E4M3 as floats. As a half, code << 7 (sign apart) has the value / 256: F16C then does exponents and
/// subnormals. 0x7f and 0xff would be 480.
inline __m256 e4m3_values(const uint8_t* codes) {
  const __m128i c = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m128i magnitude = _mm_and_si128(c, _mm_set1_epi16(0x7f));
  const __m128i half = _mm_or_si128(_mm_slli_epi16(magnitude, 7), _mm_slli_epi16(_mm_and_si128(c, _mm_set1_epi16(0x80)), 8));
  const __m128i nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
  const __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
  return _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_cvtepi16_epi32(nan)));
}

/// Weights of eight rows at element k; `scale` is read for F8_E4M3 only.
template <DType D>
inline __m256 load_weights(const uint8_t* tile, int64_t k, __m256 scale) {
  if constexpr (D == DType::kF8E4M3) return _mm256_mul_ps(e4m3_values(tile + k * 8), scale);
  if constexpr (D == DType::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(tile + k * 32));
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tile + k * 16));
  if constexpr (D == DType::kF16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

template <DType D, int R>
void product(const uint8_t* a, const uint8_t* b, const float* scales, int64_t begin, int64_t end, const float* x, int64_t stride,
             float (*acc)[kPanelRows]) {
  const __m256 scale_a = scales == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(scales);
  const __m256 scale_b = scales == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(scales + 8);
  __m256 sum[R][2];
#pragma GCC unroll 4
  for (int m = 0; m < R; ++m) {
    sum[m][0] = _mm256_loadu_ps(acc[m]);
    sum[m][1] = _mm256_loadu_ps(acc[m] + 8);
  }
  for (int64_t k = begin; k < end; ++k) {
    const __m256 w0 = load_weights<D>(a, k, scale_a);
    const __m256 w1 = load_weights<D>(b, k, scale_b);
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
void products(const uint8_t* a, const uint8_t* b, const float* scales, int64_t begin, int64_t end, const float* x, int64_t stride,
              int32_t rows, float (*acc)[kPanelRows]) {
  int32_t m = 0;
  for (; m + 4 <= rows; m += 4) product<D, 4>(a, b, scales, begin, end, x + m * stride, stride, acc + m);
  switch (rows - m) {
    case 3: return product<D, 3>(a, b, scales, begin, end, x + m * stride, stride, acc + m);
    case 2: return product<D, 2>(a, b, scales, begin, end, x + m * stride, stride, acc + m);
    case 1: return product<D, 1>(a, b, scales, begin, end, x + m * stride, stride, acc + m);
    default: return;
  }
}

void multiply(DType dtype, const uint8_t* a, const uint8_t* b, int64_t begin, int64_t end, const float* x,
              int64_t stride, int32_t rows, float (*acc)[kPanelRows]) {
  if (dtype == DType::kF32) return products<DType::kF32>(a, b, nullptr, begin, end, x, stride, rows, acc);
  if (dtype == DType::kF16) return products<DType::kF16>(a, b, nullptr, begin, end, x, stride, rows, acc);
  return products<DType::kBF16>(a, b, nullptr, begin, end, x, stride, rows, acc);
}

void multiply_f8(const uint8_t* a, const uint8_t* b, const float* scales, int64_t begin, int64_t end, const float* x,
                 int64_t stride, int32_t rows, float (*acc)[kPanelRows]) {
  products<DType::kF8E4M3>(a, b, scales, begin, end, x, stride, rows, acc);
}

}  // namespace

const FloatKernels& float_kernels_avx2() {
  static constexpr FloatKernels table = {"avx2", multiply, multiply_f8};
  return table;
}

}  // namespace slipstream
#endif
