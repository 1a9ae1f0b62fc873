// Row-wise kernels on eight lanes.
#if defined(__x86_64__)
#include "kernels/cpu/element_kernels.inl.h"
#include "kernels/cpu/simd_avx2.h"

namespace slipstream {
namespace {

template <>
void ElementRows<Avx2Lanes>::quantize_block(const float* x, int8_t* q, float* scale, int32_t* sum) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(m));
  if (_mm_cvtsi128_si32(m) >= 0x7f800000 || amax < kSmallestAmax) return quantize_block_scalar(x, q, scale, sum);
  *scale = amax / 127.0f;
  const __m256 inverse = _mm256_set1_ps(127.0f / amax);
  __m256i n[4];
  for (int i = 0; i < 4; ++i) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  const __m256i total = _mm256_add_epi32(_mm256_add_epi32(n[0], n[1]), _mm256_add_epi32(n[2], n[3]));
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
  *sum = _mm_cvtsi128_si32(t);
  // the packs work inside 128-bit halves; the permutation restores the order
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_permutevar8x32_epi32(bytes, order));
}

}  // namespace

const ElementKernels& element_kernels_avx2() {
  static constexpr ElementKernels table = ElementRows<Avx2Lanes>::table("avx2");
  return table;
}

}  // namespace slipstream
#endif
