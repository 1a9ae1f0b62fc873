// See rows.h. All of these are bound by memory, or by launch latency at a few rows: one block per row (norms) or per
// row and head (rope), 16-byte accesses, values held in registers between the reduction and the write. Inputs that an
// earlier kernel writes are not __restrict__: such loads might move above wait_for_inputs.
//
//   rms_norm      grid rows, 4 cols read + forms written per value        add_norm  the same plus count partials and the residual
//   swiglu        grid rows x ceil(cols / 1024)                           rope      grid rows x ceil(heads / 4), a warp per head
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

__global__ void forms_kernel(const float* from, Forms x) {
  const int64_t row = blockIdx.x;
  const int64_t col = 4 * (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x);
  float4 v = make_float4(0, 0, 0, 0);
  release_dependents();
  wait_for_inputs();
  if (col < x.cols) v = *reinterpret_cast<const float4*>(from + row * x.cols + col);
  x.f32 = nullptr;
  emit(x, row, col, v, col < x.cols);
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
  release_dependents();
  wait_for_inputs();
  const int32_t position = a.step.positions[row];
  if (head >= all || position < 0) return;
  const int dim = a.head_dim;
  float* source = a.qkv + (static_cast<int64_t>(row) * all + head) * dim;
  float* x = shared[warp];
  const bool is_q = head < a.heads, is_v = head >= a.heads + a.kv_heads;
  const float* norm = is_v ? nullptr : is_q ? a.q_norm : a.k_norm;
  float squares = 0;
  for (int i = lane; i < dim; i += 32) {
    const float v = source[i];
    x[i] = v;
    squares += v * v;
  }
  if (norm != nullptr) {
    for (int o = 16; o > 0; o /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, o);
    const float inverse = 1.0f / sqrtf(squares / static_cast<float>(dim) + a.eps);
    for (int i = lane; i < dim; i += 32) x[i] = x[i] * inverse * norm[i];
  }
  __syncwarp();
  if (!is_v) {
    const bool half_split = a.rope.style == RopeStyle::kHalfSplit;
    for (int i = lane; i < a.rope.dim / 2; i += 32) {
      // rounded to float first, as published models do
      float s, c;
      sincosf(static_cast<float>(position) * a.rope.inv_freq[i], &s, &c);
      s *= a.rope.attention_factor, c *= a.rope.attention_factor;
      const int first = half_split ? i : 2 * i, second = half_split ? i + a.rope.dim / 2 : 2 * i + 1;
      const float u = x[first], v = x[second];
      x[first] = u * c - v * s;
      x[second] = v * c + u * s;
    }
    __syncwarp();
  }
  if (is_q) {
    for (int i = lane; i < dim; i += 32) source[i] = x[i];
    return;
  }
  const int span = a.step.row_span[row], tokens = a.kv.block_tokens;
  const int32_t block =
      a.step.block_tables[(static_cast<int64_t>(a.kv.group) * a.step.max_spans + span) * a.step.table_stride + position / tokens];
  const int kv_head = head - a.heads - (is_v ? a.kv_heads : 0);
  if (block < 0 || (a.kv.blocks > 0 && block >= a.kv.blocks)) return;  // second wall: the host checked the ids
  const int64_t at = ((static_cast<int64_t>(block) * a.kv_heads + kv_head) * tokens + position % tokens) * dim;
  void* base = is_v ? a.kv.v : a.kv.k;
  for (int i = lane; i < dim; i += 32) store_cache(base, a.kv.dtype, is_v ? a.kv.v_scale : a.kv.k_scale, at + i, x[i]);
}

constexpr int kGatherIds = 512;
struct GatherIds {
  int32_t id[kGatherIds];
};

__global__ void gather_kernel(const float* x, __grid_constant__ const GatherIds ids, int64_t cols, float* out) {
  const float* source = x + ids.id[blockIdx.x] * cols;
  release_dependents();
  wait_for_inputs();
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

void fill_forms(Context& context, const Activation& x) {
  if (x.rows == 0 || (x.forms & ~kActF32) == 0) return;
  const int threads = static_cast<int>(std::clamp<int64_t>((x.cols / 4 + 31) / 32 * 32, 32, 256));
  const dim3 grid(static_cast<unsigned>(x.rows), static_cast<unsigned>((x.cols / 4 + threads - 1) / threads));
  launch(context, "fill_forms", forms_kernel, grid, dim3(static_cast<unsigned>(threads)), 0, x.f32, forms_of(x));
}

void qkv_norm_rope_cache(Context& context, const QkvParams& p, const StepView& step) {
  if (step.rows == 0) return;
  CHECK(p.head_dim <= kMaxHeadDim, "heads of more than 256 elements");
  const RopeArgs args{p.qkv, p.heads, p.kv_heads, p.head_dim, p.q_norm, p.k_norm, p.norm_eps, p.rope, p.kv, step};
  const int all = p.heads + 2 * p.kv_heads;
  const dim3 grid(static_cast<unsigned>(step.rows), static_cast<unsigned>((all + kRopeWarps - 1) / kRopeWarps));
  launch(context, "qkv_norm_rope_cache", rope_kernel, grid, dim3(32 * kRopeWarps), 0, args);
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
