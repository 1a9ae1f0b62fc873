// AVX2 whole-row passes; bits equal to sample_portable.cpp. Functions carry their own target attribute, so that this
// file needs no compiler flags and the choice is made at run time.
#include "kernels/cpu/sample_vector.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <limits>

#include "kernels/sample_law.h"

#define SLIP_AVX2 __attribute__((target("avx2,fma")))

namespace slipstream {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// law::gumbel never exceeds 22.9 (r = 2^32 - 1), so a logit this far below the best sum cannot win. The relative part
// covers the rounding of sums whose unit in the last place is large.
constexpr float kNoiseBound = 23.0f;
constexpr float kNoiseRounding = 1e-6f;

SLIP_AVX2 inline float max_lane(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
  return _mm_cvtss_f32(m);
}

SLIP_AVX2 bool scan(const float* x, int32_t n, float* max) {
  const __m256 inf = _mm256_set1_ps(kInfinity);
  __m256 largest = _mm256_set1_ps(-kInfinity);
  __m256 bad = _mm256_setzero_ps();
  int32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    bad = _mm256_or_ps(bad, _mm256_cmp_ps(v, inf, _CMP_NLT_UQ));  // NaN or +inf
    largest = _mm256_max_ps(largest, v);
  }
  if (_mm256_movemask_ps(bad) != 0) return false;
  float m = max_lane(largest);
  for (; i < n; ++i) {
    if (!(x[i] < kInfinity)) return false;
    if (x[i] > m) m = x[i];
  }
  *max = m;
  return m > -kInfinity;
}

SLIP_AVX2 int32_t argmax(const float* x, int32_t n) {
  if (n < 8) return portable_sample_vector().argmax(x, n);
  __m256 largest = _mm256_loadu_ps(x);
  int32_t i = 8;
  for (; i + 8 <= n; i += 8) largest = _mm256_max_ps(largest, _mm256_loadu_ps(x + i));
  float m = max_lane(largest);
  for (; i < n; ++i)
    if (x[i] > m) m = x[i];
  // the first position that holds it
  const __m256 wanted = _mm256_set1_ps(m);
  for (i = 0; i + 8 <= n; i += 8) {
    const int hit = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), wanted, _CMP_EQ_OQ));
    if (hit != 0) return i + __builtin_ctz(static_cast<unsigned>(hit));
  }
  for (; i < n; ++i)
    if (x[i] == m) return i;
  return 0;
}

SLIP_AVX2 float divide(float* x, int32_t n, float divisor) {
  const __m256 d = _mm256_set1_ps(divisor);
  __m256 largest = _mm256_set1_ps(-kInfinity);
  int32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 q = _mm256_div_ps(_mm256_loadu_ps(x + i), d);
    _mm256_storeu_ps(x + i, q);
    largest = _mm256_max_ps(largest, q);
  }
  float m = max_lane(largest);
  for (; i < n; ++i) {
    x[i] /= divisor;
    if (x[i] > m) m = x[i];
  }
  return m;
}

// High 32 bits of the eight 32 x 32 bit products.
SLIP_AVX2 inline __m256i mul_high(__m256i a, __m256i b) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
SLIP_AVX2 inline __m256i mul_low(__m256i a, __m256i b) { return _mm256_mullo_epi32(a, b); }

// law::mass of eight values; adds the even and odd lanes' 64-bit masses to *sum.
SLIP_AVX2 inline void add_mass(__m256 d, __m256i* sum) {
  const __m256 y = _mm256_mul_ps(_mm256_sub_ps(_mm256_setzero_ps(), d), _mm256_set1_ps(law::kLog2E));
  const __m256 alive = _mm256_cmp_ps(y, _mm256_set1_ps(law::kMassEnd), _CMP_LT_OQ);
  if (_mm256_movemask_ps(alive) == 0) return;
  const __m256 bounded = _mm256_and_ps(y, alive);
  const __m256i n = _mm256_cvttps_epi32(bounded);
  const __m256 fraction = _mm256_sub_ps(bounded, _mm256_cvtepi32_ps(n));
  // fraction 2^32 as an unsigned integer: the top 16 and the low 16 bits are converted apart, both exactly
  const __m256 scaled = _mm256_mul_ps(fraction, _mm256_set1_ps(65536.0f));
  const __m256i high = _mm256_cvttps_epi32(scaled);
  const __m256 rest = _mm256_sub_ps(scaled, _mm256_cvtepi32_ps(high));
  const __m256i low = _mm256_cvttps_epi32(_mm256_mul_ps(rest, _mm256_set1_ps(65536.0f)));
  const __m256i f = _mm256_or_si256(_mm256_slli_epi32(high, 16), low);
  const __m256i g = _mm256_slli_epi32(f, 5);
  __m256i p = _mm256_sub_epi32(_mm256_set1_epi32(law::kExpC3), mul_high(g, _mm256_set1_epi32(law::kExpC4)));
  p = _mm256_sub_epi32(_mm256_set1_epi32(law::kExpC2), mul_high(g, p));
  p = _mm256_sub_epi32(_mm256_set1_epi32(law::kExpC1), mul_high(g, p));
  const __m256i power = _mm256_sub_epi32(_mm256_set1_epi32(-1), mul_high(g, p));
  const __m256i step = _mm256_i32gather_epi32(reinterpret_cast<const int*>(law::kExpTable.value),
                                              _mm256_srli_epi32(f, 27), 4);
  // dead lanes: a shift of 64 or more gives 0
  const __m256i shift = _mm256_add_epi32(n, _mm256_set1_epi32(63 - law::kMassBits));
  const __m256i counted = _mm256_or_si256(shift, _mm256_andnot_si256(_mm256_castps_si256(alive), _mm256_set1_epi32(64)));
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i even = _mm256_srlv_epi64(_mm256_mul_epu32(step, power), _mm256_and_si256(counted, low_half));
  const __m256i odd = _mm256_srlv_epi64(
      _mm256_mul_epu32(_mm256_srli_epi64(step, 32), _mm256_srli_epi64(power, 32)), _mm256_srli_epi64(counted, 32));
  *sum = _mm256_add_epi64(*sum, _mm256_add_epi64(even, odd));
}

SLIP_AVX2 uint64_t mass_sum(const float* x, int32_t n, float max) {
  const __m256 m = _mm256_set1_ps(max);
  __m256i sum = _mm256_setzero_si256();
  int32_t i = 0;
  for (; i + 8 <= n; i += 8) add_mass(_mm256_sub_ps(_mm256_loadu_ps(x + i), m), &sum);
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
  uint64_t total = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (; i < n; ++i) total += law::mass(x[i] - max);
  return total;
}

SLIP_AVX2 inline __m256 log1p_reduced(__m256 f) {
  const __m256 z = _mm256_mul_ps(f, f);
  __m256 p = _mm256_set1_ps(7.0376836292e-2f);
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(-1.1514610310e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.1676998740e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(-1.2420140846e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.4249322787e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(-1.6668057665e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(2.0000714765e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(-2.4999993993e-1f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(3.3333331174e-1f));
  return _mm256_fmadd_ps(_mm256_mul_ps(p, z), f, _mm256_fmadd_ps(_mm256_set1_ps(-0.5f), z, f));
}

SLIP_AVX2 inline __m256 log8(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i exponent = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3F3504F3)), 23);
  const __m256i reduced = _mm256_sub_epi32(bits, _mm256_slli_epi32(exponent, 23));
  const __m256 e = _mm256_cvtepi32_ps(exponent);
  const __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(reduced), _mm256_set1_ps(1.0f));
  const __m256 tail = _mm256_fmadd_ps(e, _mm256_set1_ps(-2.12194440e-4f), log1p_reduced(f));
  return _mm256_fmadd_ps(e, _mm256_set1_ps(0.693359375f), tail);
}

SLIP_AVX2 inline __m256 gumbel8(__m256i r) {
  const __m256i upper = _mm256_srai_epi32(r, 31);  // all ones where r >= 2^31
  const __m256i distance = _mm256_xor_si256(r, upper);
  const __m256 t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(distance), _mm256_set1_ps(2.3283064365386963e-10f),
                                   _mm256_set1_ps(1.1641532182693481e-10f));
  const __m256 is_upper = _mm256_castsi256_ps(upper);
  const __m256 direct = _mm256_and_ps(is_upper, _mm256_cmp_ps(t, _mm256_set1_ps(0.25f), _CMP_LT_OQ));
  const __m256 u = _mm256_blendv_ps(t, _mm256_sub_ps(_mm256_set1_ps(1.0f), t), is_upper);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 inner = _mm256_blendv_ps(log8(u), log1p_reduced(_mm256_xor_ps(t, sign)), direct);
  return _mm256_xor_ps(log8(_mm256_xor_ps(inner, sign)), sign);
}

// Philox of eight consecutive blocks c0-wise constant: counters (choice, position, first + lane, domain).
SLIP_AVX2 inline void philox8(const NoiseKey& key, uint32_t first, __m256i word[4]) {
  __m256i c0 = _mm256_set1_epi32(key.choice);
  __m256i c1 = _mm256_set1_epi32(key.position);
  __m256i c2 = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c3 = _mm256_set1_epi32(static_cast<int>(law::kSampleDomain));
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  const __m256i m0 = _mm256_set1_epi32(static_cast<int>(0xD2511F53u));
  const __m256i m1 = _mm256_set1_epi32(static_cast<int>(0xCD9E8D57u));
  for (int round = 0; round < 10; ++round) {
    const __m256i a_high = mul_high(c0, m0), a_low = mul_low(c0, m0);
    const __m256i b_high = mul_high(c2, m1), b_low = mul_low(c2, m1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(b_high, c1), _mm256_set1_epi32(static_cast<int>(k0)));
    c2 = _mm256_xor_si256(_mm256_xor_si256(a_high, c3), _mm256_set1_epi32(static_cast<int>(k1)));
    c1 = b_low;
    c3 = a_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}

// Lane c of word w is token 4c + w: into token order, eight tokens a vector.
SLIP_AVX2 inline void to_token_order(const __m256i word[4], __m256i tokens[4]) {
  const __m256i a = _mm256_unpacklo_epi32(word[0], word[1]), b = _mm256_unpackhi_epi32(word[0], word[1]);
  const __m256i c = _mm256_unpacklo_epi32(word[2], word[3]), d = _mm256_unpackhi_epi32(word[2], word[3]);
  const __m256i q0 = _mm256_unpacklo_epi64(a, c), q1 = _mm256_unpackhi_epi64(a, c);  // blocks 0|4, 1|5
  const __m256i q2 = _mm256_unpacklo_epi64(b, d), q3 = _mm256_unpackhi_epi64(b, d);  // blocks 2|6, 3|7
  tokens[0] = _mm256_permute2x128_si256(q0, q1, 0x20);
  tokens[1] = _mm256_permute2x128_si256(q2, q3, 0x20);
  tokens[2] = _mm256_permute2x128_si256(q0, q1, 0x31);
  tokens[3] = _mm256_permute2x128_si256(q2, q3, 0x31);
}

SLIP_AVX2 int32_t noisy_argmax(const float* x, int32_t n, float floor, const NoiseKey& key) {
  int32_t best = -1;
  float best_value = -kInfinity;
  const __m256 lowest = _mm256_set1_ps(floor);
  int32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    // only logits that pass the floor and could still win are drawn
    const __m256 reach = _mm256_set1_ps(best < 0 ? -kInfinity : best_value - kNoiseBound - kNoiseRounding * __builtin_fabsf(best_value));
    __m256 v[4], alive[4];
    int any = 0;
    for (int q = 0; q < 4; ++q) {
      v[q] = _mm256_loadu_ps(x + i + 8 * q);
      alive[q] = _mm256_and_ps(_mm256_and_ps(_mm256_cmp_ps(v[q], lowest, _CMP_GE_OQ), _mm256_cmp_ps(v[q], reach, _CMP_GE_OQ)),
                               _mm256_cmp_ps(v[q], _mm256_set1_ps(-kInfinity), _CMP_GT_OQ));
      any |= _mm256_movemask_ps(alive[q]);
    }
    if (any == 0) continue;
    __m256i word[4], tokens[4];
    philox8(key, static_cast<uint32_t>(i) >> 2, word);
    to_token_order(word, tokens);
    for (int q = 0; q < 4; ++q) {
      const __m256 sum = _mm256_blendv_ps(_mm256_set1_ps(-kInfinity), _mm256_add_ps(v[q], gumbel8(tokens[q])), alive[q]);
      const float m = max_lane(sum);
      if (m > best_value) {
        best_value = m;
        best = i + 8 * q + __builtin_ctz(static_cast<unsigned>(
                               _mm256_movemask_ps(_mm256_cmp_ps(sum, _mm256_set1_ps(m), _CMP_EQ_OQ))));
      }
    }
  }
  for (; i < n; ++i) {
    if (!(x[i] >= floor) || x[i] == -kInfinity) continue;
    const float value = x[i] + law::token_noise(key.seed, key.choice, key.position, i);
    if (best < 0 || value > best_value) {
      best = i;
      best_value = value;
    }
  }
  return best;
}

}  // namespace

const SampleVector& best_sample_vector() {
  static constexpr SampleVector table{scan, argmax, divide, mass_sum, noisy_argmax};
  static const bool available = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return available ? table : portable_sample_vector();
}

}  // namespace slipstream

#else

namespace slipstream {
const SampleVector& best_sample_vector() { return portable_sample_vector(); }
}  // namespace slipstream

#endif
