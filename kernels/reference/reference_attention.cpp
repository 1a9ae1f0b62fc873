// Rotary embedding, cache writes and attention of the oracle: two passes over all visible tokens, no tiles.
#include <cmath>
#include <cstring>

#include "kernels/check.h"
#include "kernels/formats.h"
#include "kernels/reference/reference_ops.h"

namespace slipstream {
namespace {

/// Element index of (head, token, 0) in one layer's K or V.
int64_t cache_index(const KvLayer& kv, const SpanRows& span, int32_t head, int64_t token) {
  const int64_t block = span.block_tables[kv.group][token / kv.block_tokens];
  return ((block * kv.kv_heads + head) * kv.block_tokens + token % kv.block_tokens) * kv.head_dim;
}

float cache_load(const KvLayer& kv, const void* base, int64_t i) {
  if (kv.dtype == DType::kF32) return static_cast<const float*>(base)[i];
  if (kv.dtype == DType::kF8E4M3) return e4m3_to_f32(static_cast<const uint8_t*>(base)[i]) * (base == kv.k ? kv.k_scale : kv.v_scale);
  const uint16_t half = static_cast<const uint16_t*>(base)[i];
  return kv.dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

void cache_store(const KvLayer& kv, void* base, int64_t i, float value) {
  if (kv.dtype == DType::kF32)
    static_cast<float*>(base)[i] = value;
  else if (kv.dtype == DType::kF8E4M3)
    static_cast<uint8_t*>(base)[i] = f32_to_e4m3(value / (base == kv.k ? kv.k_scale : kv.v_scale));
  else
    static_cast<uint16_t*>(base)[i] = kv.dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
}

void head_norm(float* head, int32_t dim, const float* weight, float eps) {
  if (weight == nullptr) return;
  float sum = 0;
  for (int32_t d = 0; d < dim; ++d) sum += head[d] * head[d];
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(dim) + eps);
  for (int32_t d = 0; d < dim; ++d) head[d] = head[d] * inverse * weight[d];
}

void rotate(float* head, const RopeParams& rope, int32_t position) {
  for (int32_t i = 0; i < rope.dim / 2; ++i) {
    const bool half_split = rope.style == RopeStyle::kHalfSplit;
    float& a = head[half_split ? i : 2 * i];
    float& b = head[half_split ? i + rope.dim / 2 : 2 * i + 1];
    // The angle is rounded to float as in the published models' code; the functions themselves are exact.
    const double angle = static_cast<double>(static_cast<float>(position) * rope.inv_freq[i]);
    const float c = static_cast<float>(std::cos(angle)) * rope.attention_factor;
    const float s = static_cast<float>(std::sin(angle)) * rope.attention_factor;
    const float x = a, y = b;
    a = x * c - y * s;
    b = y * c + x * s;
  }
}

}  // namespace

void ReferenceOps::qkv_norm_rope_cache(const QkvParams& p) {
  const int64_t stride = (int64_t{p.heads} + 2 * p.kv_heads) * p.head_dim;
  for (const SpanRows& span : p.step->spans)
    for (int32_t r = 0; r < span.rows; ++r) {
      const int64_t row_index = span.first_row + r;
      float* row = p.qkv + row_index * stride;
      for (int32_t h = 0; h < p.heads + p.kv_heads; ++h) {
        head_norm(row + h * p.head_dim, p.head_dim, h < p.heads ? p.q_norm : p.k_norm, p.norm_eps);
        rotate(row + h * p.head_dim, p.rope, p.step->positions[row_index]);
      }
      for (int32_t h = 0; h < p.kv_heads; ++h) {
        const int64_t to = cache_index(p.kv, span, h, int64_t{span.context} + r);
        for (int32_t d = 0; d < p.head_dim; ++d) {
          cache_store(p.kv, p.kv.k, to + d, row[(p.heads + h) * p.head_dim + d]);
          cache_store(p.kv, p.kv.v, to + d, row[(p.heads + p.kv_heads + h) * p.head_dim + d]);
        }
      }
    }
}

void ReferenceOps::attention(const AttentionParams& p) {
  CHECK(p.step->rows <= p.out->max_rows, "more rows than the activation holds");
  check_ancestor_mask(p);
  p.out->rows = p.step->rows;
  const int32_t group = p.heads / p.kv_heads;
  for (const SpanRows& span : p.step->spans)
    for (int32_t r = 0; r < span.rows; ++r) {
      const int32_t position = span.context + r;
      const int32_t low = p.window > 0 && position - p.window + 1 > 0 ? position - p.window + 1 : 0;
      const int32_t high = p.causal && p.ancestor_mask == nullptr ? position + 1 : span.context + span.rows;
      const uint32_t mask = p.ancestor_mask != nullptr ? p.ancestor_mask[span.first_row + r] : ~0u;
      const auto hidden = [&](int32_t t) { return p.ancestor_mask != nullptr && t >= span.context && (mask >> (t - span.context) & 1u) == 0; };
      if (scores_.size() < static_cast<size_t>(high)) scores_.resize(static_cast<size_t>(high));
      for (int32_t h = 0; h < p.heads; ++h) {
        const float* q = p.q + (span.first_row + r) * p.q_stride + int64_t{h} * p.head_dim;
        float* out = p.out->f32 + (span.first_row + r) * p.out->cols + int64_t{h} * p.head_dim;
        float max = -INFINITY;
        for (int32_t t = low; t < high; ++t) {
          if (hidden(t)) continue;
          const int64_t k = cache_index(p.kv, span, h / group, t);
          float score = 0;
          for (int32_t d = 0; d < p.head_dim; ++d) score += q[d] * cache_load(p.kv, p.kv.k, k + d);
          scores_[static_cast<size_t>(t)] = score * p.scale;
          max = std::fmax(max, score * p.scale);
        }
        float sum = 0;
        for (int32_t t = low; t < high; ++t) {
          if (hidden(t)) continue;
          float& s = scores_[static_cast<size_t>(t)];
          s = std::exp(s - max);
          sum += s;
        }
        std::memset(out, 0, static_cast<size_t>(p.head_dim) * sizeof(float));
        for (int32_t t = low; t < high; ++t) {
          if (hidden(t)) continue;
          const int64_t v = cache_index(p.kv, span, h / group, t);
          const float weight = scores_[static_cast<size_t>(t)] / sum;
          for (int32_t d = 0; d < p.head_dim; ++d) out[d] += weight * cache_load(p.kv, p.kv.v, v + d);
        }
      }
    }
}

}  // namespace slipstream
