// What the attention kernels share: the parameters of a launch, the rows and tokens of a chunk, and the merge of a chunk's
// splits. Knows no tile shape.
#pragma once

#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/launch.cuh"

namespace slipstream::cuda::attn {

struct TileParams {
  const float* q;             // [rows, heads, head_dim] with stride q_stride
  int64_t q_stride;
  const unsigned char* k;     // [blocks, kv_heads, block_tokens, head_dim] of the cache's dtype
  const unsigned char* v;
  const int32_t* block_tables;   // [spans of the step, table_stride], of the layer's group
  const int32_t* span_first_row;
  const int32_t* span_rows;
  const int32_t* span_context;
  const uint32_t* ancestor_mask; // [rows] or null
  uint16_t* out_bf16;         // [rows, heads, head_dim] or null
  float* out_f32;             // or null
  float* partial;             // [spans, max_rows, heads, splits, head_dim]
  float2* stats;              // [spans, max_rows, heads, splits]: max in units of log2, sum
  uint32_t* arrived;          // [spans, kv_heads, chunks], zero between launches
  int32_t first_span;
  int32_t rows;               // of the step
  int32_t max_rows;           // of a span
  int32_t max_context;        // rows included
  int32_t heads, kv_heads, group;
  int32_t block_tokens;
  uint32_t block_magic;       // ceil(2^32 / (block_tokens / 16)); 0 where that is 1
  int32_t table_stride;
  int32_t kv_blocks;
  int32_t splits, split_tokens;
  int32_t align;              // a split starts at a multiple of it
  int32_t chunks, chunk_rows; // packed rows of a CTA
  bool merge_here;            // the last CTA of a chunk merges its splits; otherwise merge_kernel does
  int32_t window;
  bool causal;
  bool from_zero;             // splits are aligned at multiples of split_tokens
  float scale_log2;           // scale * k_scale * log2(e)
  float v_scale;
};

/// A chunk of a span: its rows and the tokens that they see. The device's numbers, held inside the launch's bounds.
struct Chunk {
  int32_t first_row, rows, context;  // of the span
  int32_t m_total, m0, m_end;        // packed rows: of the span, and of this chunk
  int32_t low, high;                 // tokens that some row of the chunk sees: [low, high)
  int32_t origin;                    // where split 0 starts
  int32_t active;                    // splits that hold tokens; 0: nothing to do

  __device__ __forceinline__ Chunk(const TileParams& p, int span, int chunk) : active(0) {
    first_row = p.span_first_row[span];
    const int span_rows = p.span_rows[span], span_context = p.span_context[span];
    rows = min(min(span_rows, p.max_rows), p.rows - first_row);
    context = max(0, min(span_context, p.max_context - rows));
    m_total = rows * p.group;
    m0 = chunk * p.chunk_rows;
    m_end = min(m_total, m0 + p.chunk_rows);
    if (first_row < 0 || rows <= 0 || m0 >= m_total) return;
    high = p.causal && p.ancestor_mask == nullptr ? context + (m_end - 1) / p.group + 1 : context + rows;
    low = p.window > 0 ? max(0, context + m0 / p.group - p.window + 1) : 0;
    origin = low - low % (p.from_zero ? p.split_tokens : p.align);
    active = (high - origin + p.split_tokens - 1) / p.split_tokens;
  }
};

/// Fixed splits come together left to right, each rescaled when it arrives, in exactly these operations: by merge_row where
/// splits ran side by side, by the tile kernel where they run one after the other. A split in which a row sees nothing
/// (max -inf, sum 0) changes nothing, so it does not matter which splits the rows beside it brought along.
struct RunningSplits {
  float top = -INFINITY, sum = 0.0f;
  float keep, factor;  // of the last add, for fold

  __device__ __forceinline__ void add(float2 stat) {
    const float now = fmaxf(top, stat.x), base = now == -INFINITY ? 0.0f : now;
    keep = exp2_fast(top - base);
    factor = exp2_fast(stat.x - base);
    sum = __fmaf_rn(stat.y, factor, __fmul_rn(sum, keep));
    top = now;
  }
  __device__ __forceinline__ float fold(float acc, float x) const { return __fmaf_rn(x, factor, __fmul_rn(acc, keep)); }
};

/// Packed row m of a span from its `active` partial results, left to right; one warp, lanes over the head.
template <int D>
__device__ __forceinline__ void merge_row(const TileParams& p, int span_index, int first_row, int r, int head, int active) {
  constexpr int kQuads = (D / 4 + 31) / 32, kBatch = 16 / kQuads;  // loads in flight
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t slot = ((int64_t{span_index} * p.max_rows + r) * p.heads + head) * p.splits;
  float top = -INFINITY, sum = 0.0f;
  float4 acc[kQuads] = {};
  if (p.from_zero) {
    RunningSplits running;
#pragma unroll 4
    for (int s = 0; s < active; ++s) {
      running.add(__ldcg(&p.stats[slot + s]));
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float4 x = __ldcg(reinterpret_cast<const float4*>(p.partial + (slot + s) * D) + min(lane + 32 * i, D / 4 - 1));
        acc[i] = {running.fold(acc[i].x, x.x), running.fold(acc[i].y, x.y), running.fold(acc[i].z, x.z), running.fold(acc[i].w, x.w)};
      }
    }
    sum = running.sum;
  }
  for (int s0 = p.from_zero ? active : 0; s0 < active; s0 += 32) {
    const int count = min(32, active - s0);
    const float2 stat = lane < count ? __ldcg(&p.stats[slot + s0 + lane]) : float2{-INFINITY, 0.0f};
    float now = fmaxf(top, stat.x);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, offset));
    const float base = now == -INFINITY ? 0.0f : now;
    const float keep = exp2_fast(top - base), factor = exp2_fast(stat.x - base);
    float share = stat.y * factor;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) share += __shfl_xor_sync(0xffffffffu, share, offset);
    sum = sum * keep + share;
    top = now;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) acc[i] = {acc[i].x * keep, acc[i].y * keep, acc[i].z * keep, acc[i].w * keep};
    for (int s1 = 0; s1 < count; s1 += kBatch) {
      float4 x[kBatch][kQuads];
#pragma unroll
      for (int s = 0; s < kBatch; ++s)
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const int quad = min(lane + 32 * i, D / 4 - 1);
          const float4* from = reinterpret_cast<const float4*>(p.partial + (slot + s0 + s1 + s) * D) + quad;
          x[s][i] = s1 + s < count ? __ldcg(from) : float4{};
        }
#pragma unroll
      for (int s = 0; s < kBatch; ++s) {
        const float weight = __shfl_sync(0xffffffffu, factor, s1 + s);  // 0 past the last split
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          acc[i].x += x[s][i].x * weight;
          acc[i].y += x[s][i].y * weight;
          acc[i].z += x[s][i].z * weight;
          acc[i].w += x[s][i].w * weight;
        }
      }
    }
  }
  const float inverse = sum == 0.0f ? 0.0f : p.v_scale / sum;
  const int64_t out = (int64_t{first_row + r} * p.heads + head) * D;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const int quad = lane + 32 * i;
    if (quad >= D / 4) continue;
    const float4 x = {acc[i].x * inverse, acc[i].y * inverse, acc[i].z * inverse, acc[i].w * inverse};
    if (p.out_f32 != nullptr) reinterpret_cast<float4*>(p.out_f32 + out)[quad] = x;
    if (p.out_bf16 != nullptr)
      reinterpret_cast<uint2*>(p.out_bf16 + out)[quad] = {pack_bf16(x.x, x.y), pack_bf16(x.z, x.w)};
  }
}

constexpr int kMergeWarps = 4;
constexpr int kMergeHereRows = 8;

/// Grid [max_rows * heads / kMergeWarps, spans]: a warp per row and head.
template <int D>
__global__ void __launch_bounds__(32 * kMergeWarps) merge_kernel(const __grid_constant__ TileParams p) {
  release_dependents();
  wait_for_inputs();
  const int index = static_cast<int>(blockIdx.x) * kMergeWarps + static_cast<int>(threadIdx.x) / 32;
  const int r = index / p.heads, head = index % p.heads, span_index = static_cast<int>(blockIdx.y);
  if (r >= p.max_rows) return;
  const Chunk chunk(p, p.first_span + span_index, (r * p.group + head % p.group) / p.chunk_rows);
  if (chunk.active > 1 && r < chunk.rows) merge_row<D>(p, span_index, chunk.first_row, r, head, chunk.active);
}

/// The end of a CTA whose split is not the chunk's only one: the last to arrive merges, if merging is done here. All
/// `kThreads` threads of the CTA call it.
template <int D, int kWarps>
__device__ __forceinline__ void merge_if_last(const TileParams& p, const Chunk& c, int span_index, int kv_head, int chunk) {
  if (c.active == 1 || !p.merge_here) return;
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    // Releases what the CTA wrote (the barrier above makes it this thread's past) and acquires what the others did.
    uint32_t* counter = p.arrived + (int64_t{span_index} * p.kv_heads + kv_head) * p.chunks + chunk;
    uint32_t before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    last = before == static_cast<uint32_t>(c.active - 1);
    if (last) *counter = 0;
  }
  __syncthreads();
  if (!last) return;
  for (int m = c.m0 + static_cast<int>(threadIdx.x) / 32; m < c.m_end; m += kWarps)
    merge_row<D>(p, span_index, c.first_row, m / p.group, kv_head * p.group + m % p.group, c.active);
}

}  // namespace slipstream::cuda::attn
