// Attention tiles with AVX2: lanes are tokens for the scores and elements of the head for the weighted sum, so both are
// plain fma chains without sums across lanes. Per query of head size 64: 256 fma for the scores, 256 for the values.
#if defined(__x86_64__)
#include <cstring>
#include <limits>

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd_avx2.h"
#include "kernels/formats.h"
#include "kernels/law.h"

namespace slipstream {
namespace {

float element(const void* base, DType dtype, int64_t i) {
  if (dtype == DType::kF32) return static_cast<const float*>(base)[i];
  const uint16_t half = static_cast<const uint16_t*>(base)[i];
  return dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

/// Transposes 8 x 8 dwords in registers.
inline void transpose8(__m256i r[8]) {
  __m256i t[8], u[8];
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    u[4 * i + 0] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
  }
}

inline __m256i load_dwords(const void* base, int64_t dword) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const int32_t*>(base) + dword));
}

/// 8 tokens x 16 elements of BF16: pairs of elements are transposed as dwords, then split.
void load_k_bf16(const void* k, int32_t tokens, int32_t head_dim, float* panel) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  for (int32_t t = 0; t < tokens; t += 8)
    for (int32_t d = 0; d < head_dim; d += 16) {
      __m256i r[8];
      for (int i = 0; i < 8; ++i)
        r[i] = t + i < tokens ? load_dwords(k, (int64_t{t + i} * head_dim + d) / 2) : _mm256_setzero_si256();
      transpose8(r);
      for (int i = 0; i < 8; ++i) {
        float* out = panel + (d + 2 * i) * kAttentionTile + t;
        _mm256_storeu_ps(out, _mm256_castsi256_ps(_mm256_slli_epi32(r[i], 16)));
        _mm256_storeu_ps(out + kAttentionTile, _mm256_castsi256_ps(_mm256_and_si256(r[i], high)));
      }
    }
}

inline __m256 load_floats(const void* base, DType dtype, int64_t i) {
  if (dtype == DType::kF32) return _mm256_loadu_ps(static_cast<const float*>(base) + i);
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const uint16_t*>(base) + i));
  if (dtype == DType::kF16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

void load_k(const void* k, DType dtype, int32_t tokens, int32_t head_dim, float* panel) {
  const int32_t filled = (tokens + 7) / 8 * 8;
  if (dtype == DType::kBF16 && head_dim % 16 == 0) {
    load_k_bf16(k, tokens, head_dim, panel);
  } else {
    const int32_t whole = head_dim / 8 * 8;
    for (int32_t t = 0; t < tokens; t += 8)
      for (int32_t d = 0; d < whole; d += 8) {
        __m256i r[8];
        for (int i = 0; i < 8; ++i)
          r[i] = t + i < tokens ? _mm256_castps_si256(load_floats(k, dtype, int64_t{t + i} * head_dim + d))
                                : _mm256_setzero_si256();
        transpose8(r);
        for (int i = 0; i < 8; ++i)
          _mm256_storeu_ps(panel + (d + i) * kAttentionTile + t, _mm256_castsi256_ps(r[i]));
      }
    for (int32_t d = whole; d < head_dim; ++d)
      for (int32_t t = 0; t < filled; ++t)
        panel[d * kAttentionTile + t] = t < tokens ? element(k, dtype, int64_t{t} * head_dim + d) : 0.0f;
  }
  if (filled < kAttentionTile)
    for (int32_t d = 0; d < head_dim; ++d)
      std::memset(panel + d * kAttentionTile + filled, 0, static_cast<size_t>(kAttentionTile - filled) * sizeof(float));
}

void load_v(const void* v, DType dtype, int32_t tokens, int32_t head_dim, float* panel) {
  const int64_t count = int64_t{tokens} * head_dim;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(panel + i, load_floats(v, dtype, i));
  for (; i < count; ++i) panel[i] = element(v, dtype, i);
}

inline float max_of(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

/// Halves added 4, 2, 1 apart.
inline float sum_of(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/// acc[0..8 * Vectors) = fma chain over t in [low, high) of p[t] * v[t].
template <int Vectors>
inline void weighted_sum(const float* p, const float* v, int32_t head_dim, int32_t low, int32_t high, float* acc) {
  __m256 sum[Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Vectors; ++i) sum[i] = _mm256_setzero_ps();
  for (int32_t t = low; t < high; ++t) {
    const __m256 w = _mm256_set1_ps(p[t]);
#pragma GCC unroll 8
    for (int i = 0; i < Vectors; ++i)
      sum[i] = _mm256_fmadd_ps(w, _mm256_loadu_ps(v + t * head_dim + 8 * i), sum[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < Vectors; ++i) _mm256_storeu_ps(acc + 8 * i, sum[i]);
}

void tile(const float* q, int32_t head_dim, float scale, const float* k_panel, const float* v_panel, int32_t low,
          int32_t high, AttentionState* out) {
  __m256 s[4];
  for (int i = 0; i < 4; ++i) s[i] = _mm256_setzero_ps();
  for (int32_t d = 0; d < head_dim; ++d) {
    const __m256 v = _mm256_set1_ps(q[d]);
    const float* k = k_panel + d * kAttentionTile;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) s[i] = _mm256_fmadd_ps(v, _mm256_loadu_ps(k + 8 * i), s[i]);
  }
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 hidden = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  __m256 seen[4];
  __m256 largest = hidden;
  for (int i = 0; i < 4; ++i) {
    const __m256i t = _mm256_add_epi32(lanes, _mm256_set1_epi32(8 * i));
    seen[i] = _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(t, _mm256_set1_epi32(low - 1)),
                                                   _mm256_cmpgt_epi32(_mm256_set1_epi32(high), t)));
    s[i] = _mm256_blendv_ps(hidden, _mm256_mul_ps(_mm256_set1_ps(scale), s[i]), seen[i]);
    largest = _mm256_max_ps(s[i], largest);  // a NaN score loses here and wins in the sum
  }
  const float max = max_of(largest);
  alignas(32) float p[kAttentionTile];
  for (int i = 0; i < 4; ++i) {
    const __m256 e = law::exp<Avx2Lanes>(_mm256_sub_ps(s[i], _mm256_set1_ps(max)));
    s[i] = _mm256_and_ps(e, seen[i]);
    _mm256_store_ps(p + 8 * i, s[i]);
  }
  out->max = max;
  out->sum = sum_of(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
  int32_t d = 0;
  for (; d + 64 <= head_dim; d += 64) weighted_sum<8>(p, v_panel + d, head_dim, low, high, out->acc + d);
  for (; d + 16 <= head_dim; d += 16) weighted_sum<2>(p, v_panel + d, head_dim, low, high, out->acc + d);
  for (; d < head_dim; ++d) {
    float acc = 0;
    for (int32_t t = low; t < high; ++t) acc = __builtin_fmaf(p[t], v_panel[t * head_dim + d], acc);
    out->acc[d] = acc;
  }
}

void merge(AttentionState* total, const AttentionState& next, int32_t head_dim) {
  const float max = next.max > total->max ? next.max : total->max;
  const float old_factor = law::exp<law::Lane1>(total->max - max);
  const float new_factor = law::exp<law::Lane1>(next.max - max);
  total->max = max;
  total->sum = __builtin_fmaf(total->sum, old_factor, next.sum * new_factor);
  const __m256 o = _mm256_set1_ps(old_factor), n = _mm256_set1_ps(new_factor);
  int32_t d = 0;
  for (; d + 8 <= head_dim; d += 8)
    _mm256_storeu_ps(total->acc + d, _mm256_fmadd_ps(_mm256_loadu_ps(total->acc + d), o,
                                                     _mm256_mul_ps(_mm256_loadu_ps(next.acc + d), n)));
  for (; d < head_dim; ++d) total->acc[d] = __builtin_fmaf(total->acc[d], old_factor, next.acc[d] * new_factor);
}

void finish(const AttentionState& total, int32_t head_dim, float* out) {
  const float inverse = 1.0f / total.sum;
  for (int32_t d = 0; d < head_dim; ++d) out[d] = total.acc[d] * inverse;
}

}  // namespace

const AttentionKernels& attention_kernels_avx2() {
  static constexpr AttentionKernels table = {"avx2", load_k, load_v, tile, merge, finish};
  return table;
}

}  // namespace slipstream
#endif
