// Attention tiles with AVX2: lanes are tokens for the scores and elements of the head for the weighted sum, so both are
// plain fma chains without sums across lanes. Per query of head size 64: 256 fma for the scores, 256 for the values;
// the query heads of one KV head go through a tile three at a time.
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
  if (dtype == DType::kF8E4M3) return e4m3_to_f32(static_cast<const uint8_t*>(base)[i]);
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

/// Eight E4M3 codes. A half float with a code's sign, exponent and mantissa at its own places is 2^-8 of the value,
/// subnormals included; only the NaN code needs a half of its own.
inline __m256 load_codes(const uint8_t* codes) {
  const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
  const __m128i size = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
  const __m128i placed = _mm_blendv_epi8(_mm_slli_epi16(size, 7), _mm_set1_epi16(0x7e00),
                                         _mm_cmpeq_epi16(size, _mm_set1_epi16(0x7f)));
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(sign, placed)), _mm256_set1_ps(256.0f));
}

inline __m256 load_floats(const void* base, DType dtype, int64_t i) {
  if (dtype == DType::kF32) return _mm256_loadu_ps(static_cast<const float*>(base) + i);
  if (dtype == DType::kF8E4M3) return load_codes(static_cast<const uint8_t*>(base) + i);
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

/// out[i].acc[d .. d + 8 * Vectors) = fma chain over t in [low, high) of p[i][t] * v[t]; N queries share each load of v.
template <int N, int Vectors>
inline void weighted_sums(const float (*p)[kAttentionTile], const float* v, int32_t head_dim, int32_t d, int32_t low,
                          int32_t high, AttentionState* out) {
  __m256 sum[N][Vectors];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < Vectors; ++j) sum[i][j] = _mm256_setzero_ps();
  for (int32_t t = low; t < high; ++t) {
    __m256 w[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) w[i] = _mm256_set1_ps(p[i][t]);
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      const __m256 value = _mm256_loadu_ps(v + t * head_dim + d + 8 * j);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[i][j] = _mm256_fmadd_ps(w[i], value, sum[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < Vectors; ++j) _mm256_storeu_ps(out[i].acc + d + 8 * j, sum[i][j]);
}

/// Scores of one query -> max, sum and probabilities.
inline void softmax(__m256 s[4], float scale, int32_t low, int32_t high, float* p, AttentionState* out) {
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
  for (int i = 0; i < 4; ++i) {
    const __m256 e = law::exp<Avx2Lanes>(_mm256_sub_ps(s[i], _mm256_set1_ps(max)));
    s[i] = _mm256_and_ps(e, seen[i]);
    _mm256_store_ps(p + 8 * i, s[i]);
  }
  out->max = max;
  out->sum = sum_of(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
}

/// N queries share each load of K and of V.
template <int N>
void tile_of(const float* q, int32_t head_dim, float scale, const float* k_panel, const float* v_panel, int32_t low,
             int32_t high, AttentionState* out) {
  __m256 s[N][4];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < 4; ++j) s[i][j] = _mm256_setzero_ps();
  for (int32_t d = 0; d < head_dim; ++d) {
    const float* k = k_panel + d * kAttentionTile;
    __m256 value[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) value[i] = _mm256_set1_ps(q[i * head_dim + d]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256 keys = _mm256_loadu_ps(k + 8 * j);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) s[i][j] = _mm256_fmadd_ps(value[i], keys, s[i][j]);
    }
  }
  alignas(32) float p[N][kAttentionTile];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) softmax(s[i], scale, low, high, p[i], out + i);
  int32_t d = 0;
  for (; d + 32 <= head_dim; d += 32) weighted_sums<N, 4>(p, v_panel, head_dim, d, low, high, out);
  for (; d + 8 <= head_dim; d += 8) weighted_sums<N, 1>(p, v_panel, head_dim, d, low, high, out);
  for (; d < head_dim; ++d)
    for (int i = 0; i < N; ++i) {
      float acc = 0;
      for (int32_t t = low; t < high; ++t) acc = __builtin_fmaf(p[i][t], v_panel[t * head_dim + d], acc);
      out[i].acc[d] = acc;
    }
}

void tile(const float* q, int32_t queries, int32_t head_dim, float scale, const float* k_panel, const float* v_panel,
          int32_t low, int32_t high, AttentionState* out) {
  int32_t i = 0;
  // four queries are two pairs: sixteen accumulators would not fit the registers
  for (; queries - i > 4 || queries - i == 3; i += 3)
    tile_of<3>(q + i * head_dim, head_dim, scale, k_panel, v_panel, low, high, out + i);
  for (; queries - i >= 2; i += 2)
    tile_of<2>(q + i * head_dim, head_dim, scale, k_panel, v_panel, low, high, out + i);
  if (i < queries) tile_of<1>(q + i * head_dim, head_dim, scale, k_panel, v_panel, low, high, out + i);
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
