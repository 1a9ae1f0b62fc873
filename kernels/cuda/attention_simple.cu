// Attention in scalar FP32: the readable twin of the tensor-core kernels, and what serves the shapes they do not.
//
// Grid [rows, heads], 128 threads. Each warp takes every fourth visible token: a dot product over the head, then an online
// softmax with the accumulator spread over the lanes. The four warps merge in shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/check.h"
#include "kernels/cuda/attention_kernels.h"

namespace slipstream::cuda::attn {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / 32;

__device__ float load(const float* p) { return *p; }
__device__ float load(const __half* p) { return __half2float(*p); }
__device__ float load(const __nv_bfloat16* p) { return __bfloat162float(*p); }
__device__ float load(const __nv_fp8_e4m3* p) { return static_cast<float>(*p); }

template <typename T>
__global__ void __launch_bounds__(32 * kWarps) simple_kernel(const AttentionArgs a) {
  const StepView& step = a.step;
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int span = step.row_span[row];
  if (span < 0 || span >= step.spans) return;
  const int r = row - step.span_first_row[span], rows = step.span_rows[span];
  if (r < 0 || r >= rows) return;

  const int context = step.span_context[span], position = context + r;
  const int table_tokens = step.table_stride * a.kv.block_tokens;
  const bool masked = a.ancestor_mask != nullptr;
  const int low = a.window > 0 ? max(0, position - a.window + 1) : 0;
  const int high = min(a.causal && !masked ? position + 1 : context + rows, table_tokens);
  const uint32_t mask = masked ? a.ancestor_mask[row] : 0;
  const int32_t* table = step.block_tables + (int64_t{a.kv.group} * step.max_spans + span) * step.table_stride;
  const int kv_head = head / (a.heads / a.kv_heads);

  float q[kPerLane], acc[kPerLane];
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + 32 * i;
    q[i] = d < a.head_dim ? a.q[row * a.q_stride + int64_t{head} * a.head_dim + d] : 0.0f;
    acc[i] = 0.0f;
  }
  float top = -INFINITY, sum = 0.0f;
  for (int t = low + warp; t < high; t += kWarps) {
    if (masked && t >= context && ((mask >> (t - context)) & 1u) == 0) continue;
    const int block = min(max(table[t / a.kv.block_tokens], 0), a.kv_blocks - 1);
    const int64_t at = ((int64_t{block} * a.kv_heads + kv_head) * a.kv.block_tokens + t % a.kv.block_tokens) * a.head_dim;
    const T* k = static_cast<const T*>(a.kv.k) + at;
    const T* v = static_cast<const T*>(a.kv.v) + at;
    float score = 0.0f;
    for (int i = 0; i < kPerLane; ++i)
      if (lane + 32 * i < a.head_dim) score += q[i] * load(k + lane + 32 * i);
    for (int offset = 16; offset > 0; offset /= 2) score += __shfl_xor_sync(0xffffffffu, score, offset);
    score *= a.scale * a.kv.k_scale;
    const float now = fmaxf(top, score), keep = expf(top - now), weight = expf(score - now);
    top = now;
    sum = sum * keep + weight;
    for (int i = 0; i < kPerLane; ++i)
      if (lane + 32 * i < a.head_dim) acc[i] = acc[i] * keep + weight * load(v + lane + 32 * i);
  }

  __shared__ float tops[kWarps], sums[kWarps], accs[kWarps][kMaxHeadDim];
  if (lane == 0) {
    tops[warp] = top;
    sums[warp] = sum;
  }
  for (int i = 0; i < kPerLane; ++i) accs[warp][lane + 32 * i] = acc[i];
  __syncthreads();
  float all_top = -INFINITY, all_sum = 0.0f, factor[kWarps];
  for (int w = 0; w < kWarps; ++w) all_top = fmaxf(all_top, tops[w]);
  for (int w = 0; w < kWarps; ++w) {
    // A warp that saw no token has a maximum of -inf; one whose scores are all NaN too, and its sum must spread.
    factor[w] = sums[w] == 0.0f ? 0.0f : tops[w] == -INFINITY ? 1.0f : expf(tops[w] - all_top);
    all_sum += sums[w] * factor[w];
  }
  for (int d = static_cast<int>(threadIdx.x); d < a.head_dim; d += 32 * kWarps) {
    float value = 0.0f;
    for (int w = 0; w < kWarps; ++w) value += accs[w][d] * factor[w];
    value = all_sum == 0.0f ? 0.0f : value * a.kv.v_scale / all_sum;
    const int64_t at = (int64_t{row} * a.heads + head) * a.head_dim + d;
    if (a.out_f32 != nullptr) a.out_f32[at] = value;
    if (a.out_bf16 != nullptr) a.out_bf16[at] = __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
}

}  // namespace

bool simple_supports(const AttentionArgs& args, std::string* why) {
  std::string reason;
  if (args.head_dim < 1 || args.head_dim > kMaxHeadDim)
    reason = "head_dim " + std::to_string(args.head_dim) + " is above " + std::to_string(kMaxHeadDim);
  else if (args.kv.dtype != DType::kF32 && args.kv.dtype != DType::kF16 && args.kv.dtype != DType::kBF16 &&
           args.kv.dtype != DType::kF8E4M3)
    reason = "a cache of " + std::string(dtype_info(args.kv.dtype).name) + " is none of F32, F16, BF16, F8_E4M3";
  else if (args.kv_heads < 1 || args.heads % args.kv_heads != 0)
    reason = std::to_string(args.heads) + " heads are no multiple of " + std::to_string(args.kv_heads) + " KV heads";
  if (why != nullptr) *why = reason;
  return reason.empty();
}

void launch_simple(Context& context, const AttentionArgs& args) {
  std::string why;
  CHECK(simple_supports(args, &why), why);
  if (args.step.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.step.rows), static_cast<unsigned>(args.heads));
  if (args.kv.dtype == DType::kF32)
    simple_kernel<float><<<grid, 32 * kWarps, 0, context.stream()>>>(args);
  else if (args.kv.dtype == DType::kF16)
    simple_kernel<__half><<<grid, 32 * kWarps, 0, context.stream()>>>(args);
  else if (args.kv.dtype == DType::kF8E4M3)
    simple_kernel<__nv_fp8_e4m3><<<grid, 32 * kWarps, 0, context.stream()>>>(args);
  else
    simple_kernel<__nv_bfloat16><<<grid, 32 * kWarps, 0, context.stream()>>>(args);
  context.check_launch("attention simple");
}

}  // namespace slipstream::cuda::attn
