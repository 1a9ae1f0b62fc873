// Eight float lanes with the members of law::Lane1, for files compiled with -mavx2 -mfma only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace slipstream {
namespace {

struct Avx2Lanes {
  using F = __m256;
  using I = __m256i;
  static constexpr int kWidth = 8;
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F set(float v) { return _mm256_set1_ps(v); }
  static I set_bits(uint32_t v) { return _mm256_set1_epi32(static_cast<int>(v)); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static I bits(F v) { return _mm256_castps_si256(v); }
  static F from_bits(I v) { return _mm256_castsi256_ps(v); }
  static I iadd(I a, I b) { return _mm256_add_epi32(a, b); }
  static I isub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I iand(I a, I b) { return _mm256_and_si256(a, b); }
  static I ior(I a, I b) { return _mm256_or_si256(a, b); }
  static I ixor(I a, I b) { return _mm256_xor_si256(a, b); }
  static I andnot(I mask, I v) { return _mm256_andnot_si256(mask, v); }
  template <int N>
  static I shl(I v) {
    return _mm256_slli_epi32(v, N);
  }
};

}  // namespace
}  // namespace slipstream
