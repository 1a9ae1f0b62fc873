// One 32-token tile of attention: unpacking of K and V, scores, softmax from scratch and the weighted sum; and the
// left-to-right merge of tiles. One table per instruction set, all with equal bits:
//   score[t] = scale * (fma chain over d of q[d] k[t][d]);  p[t] = exp(score[t] - max);
//   sum = ((p[j] + p[j+8]) + (p[j+16] + p[j+24])) for j < 8, then halves added 4, 2, 1 apart; hidden tokens count as 0
//   acc[d] = fma chain over visible t ascending of p[t] v[t][d]
// Hidden tokens are never read into a product.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace slipstream {

inline constexpr int kMaxHeadDim = 512;

/// One query vector's result over a tile or over all tiles so far.
struct AttentionState {
  float max;
  float sum;
  float* acc;  // [head_dim]
};

struct AttentionKernels {
  const char* name;
  /// panel[d * 32 + t] = k[t][d] for t < tokens, 0 beyond.  k [tokens, head_dim]
  void (*load_k)(const void* k, DType dtype, int32_t tokens, int32_t head_dim, float* panel);
  /// panel[t * head_dim + d] = v[t][d] for t < tokens.
  void (*load_v)(const void* v, DType dtype, int32_t tokens, int32_t head_dim, float* panel);
  /// Attention of `queries` query vectors, one after the other from q, over tokens [low, high) of the tile, each from
  /// scratch into out[i]; 0 <= low < high <= 32.
  void (*tile)(const float* q, int32_t queries, int32_t head_dim, float scale, const float* k_panel,
               const float* v_panel, int32_t low, int32_t high, AttentionState* out);
  /// total = total merged with next.
  void (*merge)(AttentionState* total, const AttentionState& next, int32_t head_dim);
  /// out[d] = acc[d] * (1 / sum)
  void (*finish)(const AttentionState& total, int32_t head_dim, float* out);
};

const AttentionKernels& attention_kernels_scalar();
const AttentionKernels& attention_kernels_avx2();

}  // namespace slipstream
