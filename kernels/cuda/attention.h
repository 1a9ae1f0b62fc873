// Attention of one layer over the paged cache: the request, what serves it, and the launch. Knows the step's device
// arrays and one layer's cache; no model, no slot, no graph.
//
// Spans [0, decode_spans) of the step run in the decode kernel (few rows, the cache split over the GPU), the others in the
// prefill kernel (tensor-core tiles over rows). Head dims or cache dtypes (F32) that neither serves run in the simple kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/step_view.h"

namespace slipstream::cuda {

/// Row i of a span sees the tokens t of its sequence with
///   causal: t <= context + i;  not causal: t < context + rows;  window > 0: t > context + i - window;
///   ancestor_mask, in place of causal: t < context, or bit (t - context) of the row's mask.
/// A row that sees nothing gets zeros. Tokens outside are never multiplied, so stale NaN in the cache stays there.
struct AttentionArgs {
  StepView step;
  const float* q = nullptr;      // row r at q + r * q_stride: [heads, head_dim], after RoPE; 8-byte aligned
  int64_t q_stride = 0;          // floats, even
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0;               // usually 1/sqrt(head_dim)
  int32_t window = 0;            // 0: full
  bool causal = true;
  KvLayer kv;                    // device pointers; [blocks, kv_heads, block_tokens, head_dim] each
  int32_t kv_blocks = std::numeric_limits<int32_t>::max();  // blocks of the cache: ids are clamped below it
  uint16_t* out_bf16 = nullptr;  // [rows, heads * head_dim] or null
  float* out_f32 = nullptr;      // same shape, or null
  const uint32_t* ancestor_mask = nullptr;  // [rows] or null; spans of at most 32 rows
  // 0: as many splits as fill the GPU. Otherwise splits are [n * split_tokens, (n + 1) * split_tokens) from position 0,
  // each from scratch and merged left to right: a row's arithmetic depends on its position alone, whether the splits run
  // side by side or one after the other (attention_exact.cu). A multiple of 64.
  int32_t split_tokens = 0;
  // At least attention_scratch_bytes; 16-byte aligned. Its first kAttentionCounterBytes are zero before the first launch
  // and belong to attention from then on (each launch leaves them zero); the rest may be anybody's between launches.
  float* scratch = nullptr;
  size_t scratch_bytes = 0;
};

inline constexpr size_t kAttentionCounterBytes = 128 * 1024;
/// split_tokens of a deterministic context: 8 splits fill a GPU at 4k tokens and batch 4, and a split's write costs 1 %.
inline constexpr int32_t kExactSplitTokens = 512;

/// Whether attention() serves the shape on this feature level. `why`, if given, says in one line what rules it out or,
/// where it is served, what rules out the tensor-core kernels (empty if nothing does).
bool attention_supports(const AttentionArgs& args, int32_t arch, std::string* why);

/// Scratch for any step of at most max_rows rows and max_spans spans. Less is legal and means fewer splits.
size_t attention_scratch_bytes(int32_t max_rows, int32_t max_spans, int32_t heads, int32_t head_dim,
                               int32_t multiprocessors);

/// Launches on the context's stream; no allocation, no synchronisation, capturable.
void attention(Context& context, const AttentionArgs& args);

/// The kernels that serve the shape: decode and prefill, or the simple one.
std::vector<KernelChoice> attention_report(const AttentionArgs& args, int32_t arch);

}  // namespace slipstream::cuda
