// Products of BF16 and F16 weights with few BF16 activation rows on tensor cores (mma.sync, SM80 and newer): the kernel
// template. linear_float.cu instantiates it.
//
// The same plan as linear_quant.cuh: a warp owns 16 output rows and some stages (128 elements of K), weights are the
// 16-row operand, WR tiles x WK warps a block, ring of `stages` slots. Weights stay row-major, as cuBLASLt wants them.
// F16 weights keep their 11 bits: activations are converted instead, clamped to the range of a half.
//
// Grid: (row blocks or fewer, splits, m / (8 NT)); 32 WR WK threads. k is a multiple of 8.
// Bytes: the weight once per 8 NT activation rows; the activations once per WR tiles, from L2.
//
// Measured on an H200 (read ceiling 4.43 TB/s, weights cold, graph replays), BF16, us and share of the ceiling; cuBLASLt,
// tuned, beside it (LinearScratch takes the faster):
//                  M 1          8            16                   32                   64
//   4096x4096      8.3 92 %     8.9 86 %     10.9 (14.1)          14.5 (14.5)          20.8 (12.7)
//   6144x4096     12.2 93 %    13.1 87 %     14.9 (15.8)          20.7 (16.1)          29.1 (16.2)
//   24576x4096    46.4 98 %    47.5 96 %     48.6 94 % (52.8)     55.1 (53.6)          76.5 (52.8)
//   4096x12288    23.5 97 %    24.3 94 %     26.7 85 % (29.0)     31.1 (30.1)          39.9 (31.5)
#pragma once

#include "kernels/cuda/context.h"
#include "kernels/cuda/linear_finish.cuh"
#include "kernels/cuda/linear_tile.cuh"
#include "kernels/tensor.h"

namespace slipstream::cuda {

struct FloatLinearParams {
  const uint16_t* weight;  // [n, k]
  int32_t k;
  const uint16_t* x;       // [m, k] bf16
  int32_t stages;          // slots of a ring, 2..4
  LinearOutput o;
  LinearFinish f;
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
  static size_t shared_bytes(int m, int stages, bool serial) {
    return sum_bytes<NT, WR, WK>(serial) + static_cast<size_t>(stages) * WK * (WR * kSlotBytes + x_rows(m) * kFloatRowBytes);
  }

  /// 16-byte chunk c of row n stands at c ^ 4 (n & 1), so that the eight lanes of a phase (two rows) meet all banks.
  __device__ static int chunk_offset(int row, int chunk) { return row * kFloatRowBytes + ((chunk ^ ((row & 1) << 2)) << 4); }

  /// The offset of the lane's chunk of 32 elements j of a row of parity `odd`: constants but for two registers.
  __device__ static int group_offset(int j, int odd, int t) { return j / 2 * 128 + ((j % 2) ^ odd) * 64 + t * 16; }

  /// One stage. x_row[nt]: offset of this lane's column in each group of 8, and x_odd[nt] its parity.
  __device__ static void multiply(const uint8_t* w, const uint8_t* x, const int (&x_row)[NT], const int (&x_odd)[NT], int lane,
                                  float (&acc)[NT][4]) {
    const int g = lane / 4;
    const int t = lane % 4;
    const uint8_t* w_row = w + g * kFloatRowBytes;
#pragma unroll
    for (int j = 0; j < kFloatStage / 32; ++j) {
      // A lane's 8 elements feed two k16 products: the order of K inside them is the same for both operands.
      const int offset = group_offset(j, g & 1, t);
      const uint4 upper = *reinterpret_cast<const uint4*>(w_row + offset);
      const uint4 lower = *reinterpret_cast<const uint4*>(w_row + 8 * kFloatRowBytes + offset);
#pragma unroll
      for (int nt = 0; nt < NT; ++nt) {
        uint4 v = *reinterpret_cast<const uint4*>(x + x_row[nt] + group_offset(j, x_odd[nt], t));
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
    const int first_col = blockIdx.z * 8 * NT;
    const int rows = x_rows(p.o.m - first_col);
    const int x_bytes = x_rows(p.o.m) * kFloatRowBytes;
    const int row_blocks = (p.o.n + 16 * WR - 1) / (16 * WR);
    const int groups = p.o.splits * WK;
    const int group = blockIdx.y * WK + wk;
    const int stage_count = (p.k + kFloatStage - 1) / kFloatStage;

    auto* sums = reinterpret_cast<float*>(ring);
    uint8_t* rings = ring + sum_bytes<NT, WR, WK>(p.o.serial);
    uint8_t* w_ring = rings + warp * p.stages * kSlotBytes;
    uint8_t* x_ring = rings + (WR * WK * kSlotBytes + wk * x_bytes) * p.stages;

    __shared__ float scales[8 * NT];
    const bool paired = p.f.kind == Finish::kSwiglu;
    const auto load_weight = [&](const StageCursor& at) {
      uint8_t* to = w_ring + at.slot * kSlotBytes;
      const int chunk = lane % 16;
      const int64_t k = int64_t{at.stage} * kFloatStage + chunk * 8;
      const int tile = at.row_block * WR + wr;
      const int first = paired ? min(tile * 8, p.o.n / 2 - 8) : tile * 16;
      const int jump = paired ? p.o.n / 2 - 8 : 0;  // from a tile's eight gate rows to their up rows
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const int row = c * 2 + lane / 16;
        const int64_t n = min(first + row + (c >= 4 ? jump : 0), p.o.n - 1);  // rows past the end are not stored
        copy16_once_or_zero(to + chunk_offset(row, chunk), p.weight + (k < p.k ? n * p.k + k : 0), k < p.k);
      }
    };
    const int x_chunk = lane % 16;
    const int chunk_row = wr * 2 + lane / 16;
    const uint16_t* x_from = p.x + int64_t{first_col + min(chunk_row, rows - 1)} * p.k + x_chunk * 8;
    const auto load_x = [&](const StageCursor& at) {
      uint8_t* to = x_ring + at.slot * x_bytes;
      const bool whole = at.stage * kFloatStage + x_chunk * 8 < p.k;
      const int k0 = whole ? at.stage * kFloatStage : 0;
#pragma unroll
      for (int i = 0; i < (8 * NT + 2 * WR - 1) / (2 * WR); ++i) {
        const int n = chunk_row + i * 2 * WR;
        if (n < rows) copy16(to + chunk_offset(n, x_chunk), x_from + int64_t{i * 2 * WR} * p.k + k0, whole);
      }
    };
    int x_row[NT], x_odd[NT];  // of this lane's columns: the last row stands in for those that are not
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) {
      const int n = min(nt * 8 + lane / 4, rows - 1);
      x_row[nt] = n * kFloatRowBytes;
      x_odd[nt] = n & 1;
    }
    walk_stages<NT, WR>(
        WK == 1 && p.o.serial ? serial_walk(stage_count, row_blocks, p.stages, sums)
                              : StageWalk{wk, group, groups, stage_count, row_blocks, p.stages},
        load_weight, load_x,
        [&](int slot, float (&acc)[NT][4]) {
          multiply(w_ring + slot * kSlotBytes, x_ring + slot * x_bytes, x_row, x_odd, lane, acc);
        },
        [&](int row_block, float (&acc)[NT][4]) {
          FinishRows<NT, WR, WK>::run(acc, sums, wr, wk, row_block, row_blocks, first_col, p.f, p.o, scales);
        },
        [&] { FinishRows<NT, WR, WK>::load_scales(p.f, p.k, first_col, rows, scales); });
  }
};

template <DType D, int NT, int WR, int WK>
__global__ void __launch_bounds__(32 * WR * WK, 2) float_linear_kernel(FloatLinearParams p) {
  FloatKernel<D, NT, WR, WK>::run(p);
}

}  // namespace slipstream::cuda
