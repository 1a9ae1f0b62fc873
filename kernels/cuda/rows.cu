// See rows.h. All of these are bound by memory, or by launch latency at a few rows: one block per row (norms) or per
// row and head (rope), 16-byte accesses, values held in registers between the reduction and the write. Inputs that an
// earlier kernel writes are not __restrict__: such loads might move above wait_for_inputs.
//
//   rms_norm      grid rows, 4 cols read + forms written per value        add_norm  the same plus count partials and the residual
//   swiglu        grid rows x ceil(cols / 1024)                           rope      grid rows x ceil(heads / 4), a warp per head
// Of BF16 rows, as cuBLASLt leaves them when there are many: swiglu_bf16 grid rows x ceil(cols / 2048), 8 columns a thread;
// rope_bf16 grid rows, whose block takes sines and cosines of a position once for all heads.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.h"

namespace slipstream::cuda {
namespace {

/// The device half of Activation: where one row's forms go.
struct Forms {
  float* f32;
  uint16_t* bf16;
  int8_t* q;
  float* scale;
  int32_t* sum;
  int64_t cols;
};
/// f32 may be there as the source of the other forms alone.
Forms forms_of(const Activation& x) {
  return {(x.forms & kActF32) != 0 ? x.f32 : nullptr, x.bf16, x.q, x.scale, x.sum, x.cols};
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// Columns [col, col + 4) of a row. All 32 lanes of a warp call it for 128 consecutive columns (or none of a group of 8
/// lanes does): a 32-element block is eight neighbouring lanes.
__device__ __forceinline__ void emit(const Forms& out, int64_t row, int64_t col, float4 v, bool active) {
  if (out.f32 != nullptr && active) *reinterpret_cast<float4*>(out.f32 + row * out.cols + col) = v;
  if (out.bf16 != nullptr && active)
    *reinterpret_cast<uint2*>(out.bf16 + row * out.cols + col) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
  if (out.q == nullptr) return;
  float amax = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
  // fmaxf drops NaN: carry it, and infinity, in a flag.
  bool finite = isfinite(v.x) && isfinite(v.y) && isfinite(v.z) && isfinite(v.w);
  for (int lane = 1; lane < 8; lane *= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, lane));
    finite = __shfl_xor_sync(0xffffffffu, static_cast<int>(finite), lane) != 0 && finite;
  }
  const float inverse = amax > 0 && finite ? __fdiv_rn(127.0f, amax) : 0.0f;
  const int a = __float2int_rn(v.x * inverse), b = __float2int_rn(v.y * inverse);
  const int c = __float2int_rn(v.z * inverse), d = __float2int_rn(v.w * inverse);
  int sum = finite ? a + b + c + d : 0;
  for (int lane = 1; lane < 8; lane *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  if (!active) return;
  const uint32_t packed = finite ? (a & 255) | ((b & 255) << 8) | ((c & 255) << 16) | (static_cast<uint32_t>(d & 255) << 24) : 0u;
  *reinterpret_cast<uint32_t*>(out.q + row * out.cols + col) = packed;
  if ((threadIdx.x & 7) == 0) {
    const int64_t block = (row * out.cols + col) / 32;
    out.scale[block] = finite ? __fdiv_rn(amax, 127.0f) : __int_as_float(0x7fc00000);
    out.sum[block] = sum;
  }
}

/// Sum over the block; every thread gets it.
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float warps[32];
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  const int warp = threadIdx.x / 32, count = (blockDim.x + 31) / 32;
  if (count == 1) return value;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) warps[warp] = value;
  __syncthreads();
  value = (threadIdx.x & 31) < count ? warps[threadIdx.x & 31] : 0.0f;
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}

constexpr int kMaxChunks = 8;  // float4 per thread held in registers: 8 * 4 * 512 = 16384 columns
constexpr int kMaxNormCols = kMaxChunks * 4 * 512;

__device__ __forceinline__ float4 add4(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

/// residual is null for the plain norm, whose input is `x`.
template <int kChunks>
__global__ void norm_kernel(const float* x, int32_t count, int64_t part_stride, const float* __restrict__ bias,
                            float* residual, const float* __restrict__ weight, float eps, Forms out, int64_t cols) {
  const int64_t row = blockIdx.x;
  float4 value[kChunks];
  float squares = 0;
  release_dependents();
  wait_for_inputs();
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int64_t col = 4 * (static_cast<int64_t>(i) * blockDim.x + threadIdx.x);
    value[i] = make_float4(0, 0, 0, 0);
    if (col < cols) {
      value[i] = *reinterpret_cast<const float4*>(x + row * cols + col);
      if (residual != nullptr) {
        for (int32_t p = 1; p < count; ++p)
          value[i] = add4(value[i], *reinterpret_cast<const float4*>(x + p * part_stride + row * cols + col));
        if (bias != nullptr) value[i] = add4(value[i], *reinterpret_cast<const float4*>(bias + col));
        value[i] = add4(*reinterpret_cast<const float4*>(residual + row * cols + col), value[i]);
        *reinterpret_cast<float4*>(residual + row * cols + col) = value[i];
      }
    }
    squares += value[i].x * value[i].x + value[i].y * value[i].y + value[i].z * value[i].z + value[i].w * value[i].w;
  }
  if (weight == nullptr) return;
  const float inverse = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(cols) + eps);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int64_t col = 4 * (static_cast<int64_t>(i) * blockDim.x + threadIdx.x);
    float4 v = value[i];
    if (col < cols) {
      const float4 w = *reinterpret_cast<const float4*>(weight + col);
      v = make_float4(v.x * inverse * w.x, v.y * inverse * w.y, v.z * inverse * w.z, v.w * inverse * w.w);
    }
    emit(out, row, col, v, col < cols);
  }
}

void launch_norm(Context& context, const float* x, int32_t count, int32_t rows, int64_t cols, const float* bias,
                 float* residual, const float* weight, float eps, const Forms& out) {
  if (rows == 0) return;
  const int64_t vectors = cols / 4;
  const int threads = static_cast<int>(std::clamp<int64_t>((vectors + 31) / 32 * 32, 32, 512));
  const int64_t chunks = (vectors + threads - 1) / threads;
  const int64_t stride = int64_t{rows} * cols;
  const auto run = [&](auto kernel) {
    launch(context, "norm", kernel, dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads)), 0, x, count, stride,
           bias, residual, weight, eps, out, cols);
  };
  if (chunks <= 1) run(norm_kernel<1>);
  else if (chunks <= 2) run(norm_kernel<2>);
  else if (chunks <= 4) run(norm_kernel<4>);
  else run(norm_kernel<kMaxChunks>);
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

__global__ void swiglu_kernel(const float* gate_up, Forms out) {
  const int64_t row = blockIdx.x, cols = out.cols;
  const int64_t col = 4 * (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x);
  float4 v = make_float4(0, 0, 0, 0);
  release_dependents();
  wait_for_inputs();
  if (col < cols) {
    const float4 g = *reinterpret_cast<const float4*>(gate_up + row * 2 * cols + col);
    const float4 u = *reinterpret_cast<const float4*>(gate_up + row * 2 * cols + cols + col);
    v = make_float4(silu(g.x) * u.x, silu(g.y) * u.y, silu(g.z) * u.z, silu(g.w) * u.w);
  }
  emit(out, row, col, v, col < cols);
}

/// A row of BF16 times the factor of its pending norm.
__global__ void finish_norm_kernel(uint16_t* x, int64_t cols, const float* squares, int32_t groups, float eps) {
  const int64_t row = blockIdx.x;
  wait_for_inputs();
  float sum = 0;
  for (int g = threadIdx.x; g < groups; g += blockDim.x) sum += squares[row * groups + g];
  const float inverse = 1.0f / sqrtf(block_sum(sum) / static_cast<float>(cols) + eps);
  for (int64_t col = 2 * threadIdx.x; col < cols; col += 2 * blockDim.x) {
    auto* at = reinterpret_cast<uint32_t*>(x + row * cols + col);
    *at = pack_bf16(__uint_as_float(*at << 16) * inverse, __uint_as_float(*at & 0xffff0000u) * inverse);
  }
}

__global__ void forms_kernel(const float* from, Forms x) {
  const int64_t row = blockIdx.x;
  const int64_t col = 4 * (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x);
  float4 v = make_float4(0, 0, 0, 0);
  release_dependents();
  wait_for_inputs();
  if (col < x.cols) v = *reinterpret_cast<const float4*>(from + row * x.cols + col);
  emit(x, row, col, v, col < x.cols);
}

__device__ __forceinline__ void unpack_bf16(uint32_t pair, float& low, float& high) {
  low = __uint_as_float(pair << 16);
  high = __uint_as_float(pair & 0xffff0000u);
}

/// bias [2 * cols] or null. cols is a multiple of 8 and all lanes of a warp are inside or eight neighbours outside together.
__global__ void swiglu_bf16_kernel(const uint16_t* gate_up, const float* __restrict__ bias, Forms out) {
  const int64_t row = blockIdx.x, cols = out.cols;
  const int64_t col = 8 * (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x);
  release_dependents();
  wait_for_inputs();
  if (col >= cols) return;
  const uint4 gate = __ldcs(reinterpret_cast<const uint4*>(gate_up + row * 2 * cols + col));
  const uint4 up = __ldcs(reinterpret_cast<const uint4*>(gate_up + row * 2 * cols + cols + col));
  const uint32_t gates[4] = {gate.x, gate.y, gate.z, gate.w}, ups[4] = {up.x, up.y, up.z, up.w};
  float v[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float g[2], u[2];
    unpack_bf16(gates[i], g[0], g[1]);
    unpack_bf16(ups[i], u[0], u[1]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (bias != nullptr) g[j] += bias[col + 2 * i + j], u[j] += bias[cols + col + 2 * i + j];
      v[2 * i + j] = __fdividef(g[j], 1.0f + __expf(-g[j])) * u[j];
    }
  }
  if (out.bf16 != nullptr)
    *reinterpret_cast<uint4*>(out.bf16 + row * cols + col) =
        make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
  if (out.f32 != nullptr) {
    float4* to = reinterpret_cast<float4*>(out.f32 + row * cols + col);
    to[0] = make_float4(v[0], v[1], v[2], v[3]);
    to[1] = make_float4(v[4], v[5], v[6], v[7]);
  }
}

constexpr int kRopeWarps = 4;
constexpr int kMaxHeadDim = 256;

struct RopeArgs {
  float* qkv;
  int32_t heads, kv_heads, head_dim;
  const float* q_norm;
  const float* k_norm;
  float eps;
  RopeParams rope;
  KvLayer kv;
  StepView step;
};

__device__ __forceinline__ void store_cache(void* base, DType dtype, float scale, int64_t i, float value) {
  if (dtype == DType::kF8E4M3)
    static_cast<__nv_fp8_storage_t*>(base)[i] = __nv_cvt_float_to_fp8(__fdiv_rn(value, scale), __NV_SATFINITE, __NV_E4M3);
  else if (dtype == DType::kBF16)
    static_cast<__nv_bfloat16*>(base)[i] = __float2bfloat16_rn(value);
  else if (dtype == DType::kF16)
    static_cast<__half*>(base)[i] = __float2half_rn(value);
  else
    static_cast<float*>(base)[i] = value;
}

/// A warp per (row, head). Heads are q, then k, then v; only q is written back, k and v go to the cache.
__global__ void rope_kernel(RopeArgs a) {
  __shared__ float shared[kRopeWarps][kMaxHeadDim];
  const int row = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const int head = blockIdx.y * kRopeWarps + warp, all = a.heads + 2 * a.kv_heads;
  const int dim = a.head_dim;
  float* source = a.qkv + (static_cast<int64_t>(row) * all + head) * dim;
  float* x = shared[warp];
  const bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
  const float* norm = is_v ? nullptr : is_q ? a.q_norm : a.k_norm;
  // At a few rows this kernel is a chain of loads: what the model owns comes before the wait, the rest at once after it.
  constexpr int kPerLane = kMaxHeadDim / 32;
  float weight[kPerLane], frequency[kPerLane / 2], v[kPerLane];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) weight[j] = norm != nullptr && lane + 32 * j < dim ? norm[lane + 32 * j] : 1.0f;
#pragma unroll
  for (int j = 0; j < kPerLane / 2; ++j) frequency[j] = !is_v && lane + 32 * j < a.rope.dim / 2 ? a.rope.inv_freq[lane + 32 * j] : 0.0f;
  release_dependents();
  wait_for_inputs();
  if (head >= all) return;
  const int32_t position = a.step.positions[row], span = a.step.row_span[row], tokens = a.kv.block_tokens;
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) v[j] = lane + 32 * j < dim ? source[lane + 32 * j] : 0.0f;
  if (position < 0) return;
  const int32_t block = is_q ? 0 : a.step.block_tables[(static_cast<int64_t>(a.kv.group) * a.step.max_spans + span) * a.step.table_stride +
                                                       position / tokens];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) squares += v[j] * v[j];
  float inverse = 1.0f;
  if (norm != nullptr) {
    for (int o = 16; o > 0; o /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, o);
    inverse = 1.0f / sqrtf(squares / static_cast<float>(dim) + a.eps);
  }
#pragma unroll
  for (int j = 0; j < kPerLane; ++j)
    if (lane + 32 * j < dim) x[lane + 32 * j] = norm != nullptr ? v[j] * inverse * weight[j] : v[j];
  __syncwarp();
  if (!is_v) {
    const bool half_split = a.rope.style == RopeStyle::kHalfSplit;
#pragma unroll
    for (int j = 0; j < kPerLane / 2; ++j) {
      const int i = lane + 32 * j;
      if (i >= a.rope.dim / 2) break;
      // rounded to float first, as published models do
      float s, c;
      sincosf(static_cast<float>(position) * frequency[j], &s, &c);
      s *= a.rope.attention_factor, c *= a.rope.attention_factor;
      const int first = half_split ? i : 2 * i, second = half_split ? i + a.rope.dim / 2 : 2 * i + 1;
      const float low = x[first], high = x[second];
      x[first] = low * c - high * s;
      x[second] = high * c + low * s;
    }
    __syncwarp();
  }
  if (is_q) {
    for (int i = lane; i < dim; i += 32) source[i] = x[i];
    return;
  }
  const int kv_head = head - a.heads - (is_v ? a.kv_heads : 0);
  if (block < 0 || (a.kv.blocks > 0 && block >= a.kv.blocks)) return;  // second wall: the host checked the ids
  const int64_t at = ((static_cast<int64_t>(block) * a.kv_heads + kv_head) * tokens + position % tokens) * dim;
  void* base = is_v ? a.kv.v : a.kv.k;
  for (int i = lane; i < dim; i += 32) store_cache(base, a.kv.dtype, is_v ? a.kv.v_scale : a.kv.k_scale, at + i, x[i]);
}

constexpr int kRopeManyThreads = 256;

/// rope_kernel over BF16 rows of heads of kDim, all of it rotated; bias [row] or null is added first. A row of BF16 stands in
/// the second half of its floats: head h's floats end before the BF16 of any later head begins, so what a round of heads
/// writes was read in this round or before. A head is kDim / 8 neighbouring lanes, each with four pairs.
template <int kDim>
__global__ void __launch_bounds__(kRopeManyThreads) rope_bf16_kernel(RopeArgs a, const float* __restrict__ bias) {
  constexpr int kLanes = kDim / 8, kHeads = kRopeManyThreads / kLanes;  // of a head; at once
  const int row = blockIdx.x, lane = threadIdx.x % kLanes, all = a.heads + 2 * a.kv_heads;
  release_dependents();
  wait_for_inputs();
  const int32_t position = a.step.positions[row];
  if (position < 0) return;
  const bool half_split = a.rope.style == RopeStyle::kHalfSplit;
  // where the lane's eight values stand: two runs of four, or one of eight
  const int first = half_split ? 4 * lane : 8 * lane, second = half_split ? first + kDim / 2 : first + 4;
  float c[4], s[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sincosf(static_cast<float>(position) * a.rope.inv_freq[4 * lane + i], &s[i], &c[i]);
    s[i] *= a.rope.attention_factor, c[i] *= a.rope.attention_factor;
  }
  const int span = a.step.row_span[row], tokens = a.kv.block_tokens;
  const int32_t block =
      a.step.block_tables[(static_cast<int64_t>(a.kv.group) * a.step.max_spans + span) * a.step.table_stride + position / tokens];
  const bool cached = block >= 0 && (a.kv.blocks <= 0 || block < a.kv.blocks);  // second wall: the host checked the ids
  float* const floats = a.qkv + static_cast<int64_t>(row) * all * kDim;
  const uint16_t* const source = reinterpret_cast<const uint16_t*>(floats) + all * kDim;
  for (int base = 0; base < all; base += kHeads) {
    const int head = base + static_cast<int>(threadIdx.x) / kLanes;
    const bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
    const int at = min(head, all - 1) * kDim;
    const uint2 raw[2] = {*reinterpret_cast<const uint2*>(source + at + first), *reinterpret_cast<const uint2*>(source + at + second)};
    __syncthreads();
    float x[8];
    unpack_bf16(raw[0].x, x[0], x[1]), unpack_bf16(raw[0].y, x[2], x[3]);
    unpack_bf16(raw[1].x, x[4], x[5]), unpack_bf16(raw[1].y, x[6], x[7]);
    if (bias != nullptr)
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] += bias[at + (i < 4 ? first + i : second + i - 4)];
    if (a.q_norm != nullptr || a.k_norm != nullptr) {
      float squares = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) squares += x[i] * x[i];
#pragma unroll
      for (int o = kLanes / 2; o > 0; o /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, o);
      const float* norm = is_v ? nullptr : is_q ? a.q_norm : a.k_norm;
      const float inverse = 1.0f / sqrtf(squares / static_cast<float>(kDim) + a.eps);
      if (norm != nullptr)
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] *= inverse * norm[i < 4 ? first + i : second + i - 4];
    }
    if (head >= all) continue;
    if (!is_v)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& u = x[half_split ? i : 2 * i];
        float& v = x[half_split ? i + 4 : 2 * i + 1];
        const float before = u;
        u = before * c[i] - v * s[i];
        v = v * c[i] + before * s[i];
      }
    if (is_q) {
      *reinterpret_cast<float4*>(floats + at + first) = make_float4(x[0], x[1], x[2], x[3]);
      *reinterpret_cast<float4*>(floats + at + second) = make_float4(x[4], x[5], x[6], x[7]);
      continue;
    }
    if (!cached) continue;
    const int kv_head = head - a.heads - (is_v ? a.kv_heads : 0);
    const int64_t to = ((static_cast<int64_t>(block) * a.kv_heads + kv_head) * tokens + position % tokens) * kDim;
    void* cache = is_v ? a.kv.v : a.kv.k;
    if (a.kv.dtype == DType::kBF16) {
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(cache) + to + first) = make_uint2(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]));
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(cache) + to + second) = make_uint2(pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) store_cache(cache, a.kv.dtype, is_v ? a.kv.v_scale : a.kv.k_scale, to + (i < 4 ? first + i : second + i - 4), x[i]);
    }
  }
}

constexpr int kGatherIds = 512;
struct GatherIds {
  int32_t id[kGatherIds];
};

__global__ void gather_kernel(const float* x, __grid_constant__ const GatherIds ids, int64_t cols, float* out) {
  const float* source = x + ids.id[blockIdx.x] * cols;
  wait_for_inputs();
  release_dependents();  // attention may follow, which reads what the kernel before this one made of the step
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) out[blockIdx.x * cols + col] = source[col];
}

}  // namespace

std::string row_ops_unsupported_reason(int64_t cols, uint8_t forms) {
  const int64_t unit = (forms & kActInt8Block32) != 0 ? 32 : 4;
  if (cols % unit != 0) return std::to_string(cols) + " columns are not a multiple of " + std::to_string(unit);
  return {};
}

void rms_norm(Context& context, const float* x, int32_t rows, const float* weight, float eps, const Activation& out) {
  CHECK(out.cols <= kMaxNormCols, "rms_norm over more than 16384 columns");
  launch_norm(context, x, 1, rows, out.cols, nullptr, nullptr, weight, eps, forms_of(out));
}

void add_norm(Context& context, const float* partials, int32_t count, int32_t rows, int64_t cols, const float* bias,
              float* residual, const float* norm, float eps, const Activation* out) {
  CHECK(cols <= kMaxNormCols, "add_norm over more than 16384 columns");
  launch_norm(context, partials, count, rows, cols, bias, residual, norm, eps, out == nullptr ? Forms{} : forms_of(*out));
}

void swiglu(Context& context, const float* gate_up, int32_t rows, const Activation& out) {
  if (rows == 0) return;
  const int threads = static_cast<int>(std::clamp<int64_t>((out.cols / 4 + 31) / 32 * 32, 32, 256));
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>((out.cols / 4 + threads - 1) / threads));
  launch(context, "swiglu", swiglu_kernel, grid, dim3(static_cast<unsigned>(threads)), 0, gate_up, forms_of(out));
}

void finish_norm(Context& context, const Activation& x, const float* squares, int32_t groups, float eps) {
  launch(context, "finish_norm", finish_norm_kernel, dim3(static_cast<unsigned>(x.rows)), dim3(512), 0, x.bf16, x.cols, squares, groups, eps);
}

void store_rows(Context& context, const float* x, const Activation& out) {
  if (out.rows == 0) return;
  const int threads = static_cast<int>(std::clamp<int64_t>((out.cols / 4 + 31) / 32 * 32, 32, 256));
  const dim3 grid(static_cast<unsigned>(out.rows), static_cast<unsigned>((out.cols / 4 + threads - 1) / threads));
  launch(context, "store_rows", forms_kernel, grid, dim3(static_cast<unsigned>(threads)), 0, x, forms_of(out));
}

void fill_forms(Context& context, const Activation& x) {
  if ((x.forms & ~kActF32) == 0) return;
  Activation others = x;
  others.forms &= static_cast<uint8_t>(~kActF32);
  store_rows(context, x.f32, others);
}

void qkv_norm_rope_cache(Context& context, const QkvParams& p, const StepView& step) {
  if (step.rows == 0) return;
  CHECK(p.head_dim <= kMaxHeadDim, "heads of more than 256 elements");
  const RopeArgs args{p.qkv, p.heads, p.kv_heads, p.head_dim, p.q_norm, p.k_norm, p.norm_eps, p.rope, p.kv, step};
  const int all = p.heads + 2 * p.kv_heads;
  const dim3 grid(static_cast<unsigned>(step.rows), static_cast<unsigned>((all + kRopeWarps - 1) / kRopeWarps));
  launch(context, "qkv_norm_rope_cache", rope_kernel, grid, dim3(32 * kRopeWarps), 0, args);
}

void swiglu_bf16(Context& context, const uint16_t* gate_up, const float* bias, int32_t rows, const Activation& out) {
  if (rows == 0) return;
  CHECK(out.cols % 8 == 0, "swiglu over BF16 rows of " + std::to_string(out.cols) + " columns");
  const Forms forms = forms_of(out);
  CHECK(forms.q == nullptr, "the int8 form of many rows");
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>((out.cols / 8 + 255) / 256));
  launch(context, "swiglu_bf16", swiglu_bf16_kernel, grid, dim3(256), 0, gate_up, bias, forms);
}

bool rope_bf16_supports(const QkvParams& p) {
  return (p.head_dim == 64 || p.head_dim == 128 || p.head_dim == 256) && p.rope.dim == p.head_dim;
}

void qkv_norm_rope_cache_bf16(Context& context, const QkvParams& p, const float* bias, const StepView& step) {
  if (step.rows == 0) return;
  CHECK(rope_bf16_supports(p), "rope over BF16 rows of heads of " + std::to_string(p.head_dim));
  const RopeArgs args{p.qkv, p.heads, p.kv_heads, p.head_dim, p.q_norm, p.k_norm, p.norm_eps, p.rope, p.kv, step};
  const auto kernel = p.head_dim == 64 ? rope_bf16_kernel<64> : p.head_dim == 128 ? rope_bf16_kernel<128> : rope_bf16_kernel<256>;
  launch(context, "qkv_norm_rope_cache_bf16", kernel, dim3(static_cast<unsigned>(step.rows)), dim3(kRopeManyThreads), 0, args, bias);
}

void gather_rows(Context& context, const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) {
  GatherIds ids;
  for (size_t first = 0; first < row_ids.size(); first += kGatherIds) {
    const size_t count = std::min<size_t>(kGatherIds, row_ids.size() - first);
    std::copy_n(row_ids.begin() + static_cast<std::ptrdiff_t>(first), count, ids.id);
    launch(context, "gather_rows", gather_kernel, dim3(static_cast<unsigned>(count)), dim3(256), 0, x, ids, cols,
           out + static_cast<int64_t>(first) * cols);
  }
}

}  // namespace slipstream::cuda
