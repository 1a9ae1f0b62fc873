// Products of BF16 and F16 weights with few BF16 activation rows on tensor cores (mma.sync, SM80 and newer): the kernel
// template. linear_float.cu instantiates it.
//
// The same plan as linear_quant.cuh: a warp owns 16 output rows and some stages (128 elements of K), weights are the
// 16-row operand, WR tiles x WK warps a block, ring of `stages` slots. Weights stay row-major, as cuBLASLt wants them.
// F16 weights keep their 11 bits: activations are converted instead, clamped to the range of a half.
//
// Grid: (tiles / WR, splits, m / (8 NT)); 32 WR WK threads. k is a multiple of 8.
// Bytes: the weight once per 8 NT activation rows; the activations once per WR tiles, from L2.
#pragma once

#include "kernels/cuda/context.h"
#include "kernels/cuda/linear_tile.cuh"
#include "kernels/tensor.h"

namespace slipstream::cuda {

struct FloatLinearParams {
  const uint16_t* weight;  // [n, k]
  int32_t k;
  const uint16_t* x;       // [m, k] bf16
  int32_t stages;          // slots of a ring, 2..4
  LinearOutput o;
};

inline constexpr int kFloatStage = 128;                 // elements
inline constexpr int kFloatRowBytes = kFloatStage * 2;  // of a row of a slot

/// Two bf16 as two halves, saturated at +-65504. NaN stays NaN.
__device__ inline uint32_t bf16x2_to_f16x2(uint32_t v) {
  const float low = __uint_as_float(v << 16);
  const float high = __uint_as_float(v & 0xffff0000u);
  const auto clamp = [](float f) { return f != f ? f : fminf(fmaxf(f, -65504.0f), 65504.0f); };
  const __half2 h = __floats2half2_rn(clamp(low), clamp(high));
  return *reinterpret_cast<const uint32_t*>(&h);
}

template <DType D, int NT, int WR, int WK>
struct FloatKernel {
  static constexpr int kThreads = 32 * WR * WK;
  static constexpr int kSlotBytes = 16 * kFloatRowBytes;

  __host__ __device__ static int x_rows(int m) { return m < 8 * NT ? m : 8 * NT; }
  static size_t shared_bytes(int m, int stages) {
    const size_t ring = static_cast<size_t>(stages) * WK * (WR * kSlotBytes + x_rows(m) * kFloatRowBytes);
    const size_t sums = static_cast<size_t>(WK) * WR * 16 * NT * 8 * 4;
    return ring > sums ? ring : sums;
  }

  /// 16-byte chunk c of row n stands at c ^ 4 (n & 1), so that the eight lanes of a phase (two rows) meet all banks.
  __device__ static int chunk_offset(int row, int chunk) { return row * kFloatRowBytes + ((chunk ^ ((row & 1) << 2)) << 4); }

  __device__ static void multiply(const uint8_t* w, const uint8_t* x, int rows, int lane, float (&acc)[NT][4]) {
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll
    for (int j = 0; j < kFloatStage / 32; ++j) {
      // A lane's 8 elements feed two k16 products: the order of K inside them is the same for both operands.
      const uint4 upper = *reinterpret_cast<const uint4*>(w + chunk_offset(g, 4 * j + t));
      const uint4 lower = *reinterpret_cast<const uint4*>(w + chunk_offset(g + 8, 4 * j + t));
#pragma unroll
      for (int nt = 0; nt < NT; ++nt) {
        const int n = min(nt * 8 + g, rows - 1);
        uint4 v = *reinterpret_cast<const uint4*>(x + chunk_offset(n, 4 * j + t));
        if constexpr (D == DType::kBF16) {
          mma_bf16(acc[nt], upper.x, lower.x, upper.y, lower.y, v.x, v.y);
          mma_bf16(acc[nt], upper.z, lower.z, upper.w, lower.w, v.z, v.w);
        } else {
          v.x = bf16x2_to_f16x2(v.x), v.y = bf16x2_to_f16x2(v.y);
          v.z = bf16x2_to_f16x2(v.z), v.w = bf16x2_to_f16x2(v.w);
          mma_f16(acc[nt], upper.x, lower.x, upper.y, lower.y, v.x, v.y);
          mma_f16(acc[nt], upper.z, lower.z, upper.w, lower.w, v.z, v.w);
        }
      }
    }
  }

  __device__ static void run(const FloatLinearParams& p) {
    extern __shared__ __align__(128) uint8_t ring[];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int wr = warp % WR;
    const int wk = warp / WR;
    const int64_t block_row = int64_t{blockIdx.x} * WR * 16;
    const int64_t first_row = block_row + wr * 16;
    const int first_col = blockIdx.z * 8 * NT;
    const int rows = x_rows(p.o.m - first_col);
    const int x_bytes = x_rows(p.o.m) * kFloatRowBytes;

    const int groups = p.o.splits * WK;
    const int group = blockIdx.y * WK + wk;
    const int stage_count = (p.k + kFloatStage - 1) / kFloatStage;
    const int mine = group < stage_count ? (stage_count - 1 - group) / groups + 1 : 0;

    uint8_t* w_ring = ring + warp * p.stages * kSlotBytes;
    uint8_t* x_ring = ring + (WR * WK * kSlotBytes + wk * x_bytes) * p.stages;

    const auto load_weight = [&](int i, int slot) {
      const int64_t k0 = int64_t{group + i * groups} * kFloatStage;
      uint8_t* to = w_ring + slot * kSlotBytes;
      const int chunk = lane % 16;
      const int64_t k = k0 + chunk * 8;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const int row = c * 2 + lane / 16;
        const int64_t n = min(first_row + row, int64_t{p.o.n} - 1);  // rows past the end are not stored
        copy16_once_or_zero(to + chunk_offset(row, chunk), p.weight + (k < p.k ? n * p.k + k : 0), k < p.k);
      }
    };
    const auto load_x = [&](int i, int slot) {
      const int64_t k0 = int64_t{group + i * groups} * kFloatStage;
      uint8_t* to = x_ring + slot * x_bytes;
      for (int c = wr * 32 + lane; c < rows * 16; c += WR * 32) {
        const int n = c / 16;
        const int chunk = c % 16;
        const int64_t k = k0 + chunk * 8;
        copy16(to + chunk_offset(n, chunk), p.x + (k < p.k ? int64_t{first_col + n} * p.k + k : 0), k < p.k);
      }
    };

    // Weights do not depend on the kernel before this one.
    const int ahead = p.stages - 1;
    for (int i = 0; i < min(ahead, mine); ++i) load_weight(i, i);
    wait_for_previous_kernel();
    allow_next_kernel();
    for (int i = 0; i < ahead; ++i) {
      if (i < mine) load_x(i, i);
      commit_copies();
    }
    float acc[NT][4] = {};
    int slot = 0;
    int free_slot = ahead;
    for (int i = 0; i < mine; ++i) {
      wait_for_stage(p.stages);
      if constexpr (WR == 1) {
        __syncwarp();
      } else {
        named_barrier(wk + 1, WR * 32);
      }
      if (i + ahead < mine) {
        load_weight(i + ahead, free_slot);
        load_x(i + ahead, free_slot);
      }
      commit_copies();
      multiply(w_ring + slot * kSlotBytes, x_ring + slot * x_bytes, rows, lane, acc);
      slot = slot + 1 == p.stages ? 0 : slot + 1;
      free_slot = free_slot + 1 == p.stages ? 0 : free_slot + 1;
    }
    wait_copies<0>();
    __syncthreads();
    reduce_and_store<NT, WR, WK>(acc, reinterpret_cast<float*>(ring), wr, wk, block_row, first_col, p.o);
  }
};

template <DType D, int NT, int WR, int WK>
__global__ void __launch_bounds__(32 * WR * WK) float_linear_kernel(FloatLinearParams p) {
  FloatKernel<D, NT, WR, WK>::run(p);
}

}  // namespace slipstream::cuda
