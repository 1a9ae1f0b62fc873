// Attention tiles in plain C++.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/attention_kernels.h"
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

void load_k(const void* k, DType dtype, int32_t tokens, int32_t head_dim, float* panel) {
  for (int32_t d = 0; d < head_dim; ++d)
    for (int32_t t = 0; t < kAttentionTile; ++t)
      panel[d * kAttentionTile + t] = t < tokens ? element(k, dtype, int64_t{t} * head_dim + d) : 0.0f;
}

void load_v(const void* v, DType dtype, int32_t tokens, int32_t head_dim, float* panel) {
  for (int64_t i = 0; i < int64_t{tokens} * head_dim; ++i) panel[i] = element(v, dtype, i);
}

void tile_one(const float* q, int32_t head_dim, float scale, const float* k_panel, const float* v_panel, int32_t low,
          int32_t high, AttentionState* out) {
  float p[kAttentionTile];
  float max = -std::numeric_limits<float>::infinity();
  for (int32_t t = low; t < high; ++t) {
    float dot = 0;
    for (int32_t d = 0; d < head_dim; ++d) dot = std::fma(q[d], k_panel[d * kAttentionTile + t], dot);
    p[t] = scale * dot;
    max = p[t] > max ? p[t] : max;
  }
  for (int32_t t = 0; t < kAttentionTile; ++t)
    p[t] = t >= low && t < high ? law::exp<law::Lane1>(p[t] - max) : 0.0f;
  float lane[8];
  for (int j = 0; j < 8; ++j) lane[j] = (p[j] + p[j + 8]) + (p[j + 16] + p[j + 24]);
  for (int half = 4; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  out->max = max;
  out->sum = lane[0];
  for (int32_t d = 0; d < head_dim; ++d) {
    float acc = 0;
    for (int32_t t = low; t < high; ++t) acc = std::fma(p[t], v_panel[t * head_dim + d], acc);
    out->acc[d] = acc;
  }
}

void tile(const float* q, int32_t queries, int32_t head_dim, float scale, const float* k_panel, const float* v_panel,
          int32_t low, int32_t high, AttentionState* out) {
  for (int32_t i = 0; i < queries; ++i)
    tile_one(q + i * head_dim, head_dim, scale, k_panel, v_panel, low, high, out + i);
}

void merge(AttentionState* total, const AttentionState& next, int32_t head_dim) {
  const float max = next.max > total->max ? next.max : total->max;
  const float old_factor = law::exp<law::Lane1>(total->max - max);
  const float new_factor = law::exp<law::Lane1>(next.max - max);
  total->max = max;
  total->sum = std::fma(total->sum, old_factor, next.sum * new_factor);
  for (int32_t d = 0; d < head_dim; ++d)
    total->acc[d] = std::fma(total->acc[d], old_factor, next.acc[d] * new_factor);
}

void finish(const AttentionState& total, int32_t head_dim, float* out) {
  const float inverse = 1.0f / total.sum;
  for (int32_t d = 0; d < head_dim; ++d) out[d] = total.acc[d] * inverse;
}

}  // namespace

const AttentionKernels& attention_kernels_scalar() {
  static constexpr AttentionKernels table = {"scalar", load_k, load_v, tile, merge, finish};
  return table;
}

}  // namespace slipstream
