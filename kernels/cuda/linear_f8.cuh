// Products of F8_E4M3 weights with few BF16 activation rows on tensor cores (mma.sync, SM80 and newer; W8A16: activations are
// not quantised): the kernel template. linear_f8.cu instantiates it.
//
// The plan of linear_float.cuh: a warp owns 16 output rows and some stages (256 elements of K), codes are the 16-row operand,
// WR tiles x WK warps a block, ring of `stages` slots. Codes stay row-major; in registers they become BF16, exactly
// (f8_codes.cuh). Each 128 elements of K are summed alone and then added times their scale in float, which the slot brings
// along: [2, 16 rows].
//
// Grid: (row blocks or fewer, splits, m / (8 NT)); 32 WR WK threads. k is a multiple of 16; scales change at multiples of
// 128 only (f8_fast).
// Bytes: the codes once per 8 NT activation rows; the activations once per WR tiles, from L2.
//
// Measured on an H200 (read ceiling 4.43-4.52 TB/s, weights cold, graph replays), 128 x 128 scales, us and share of the ceiling:
//                  M 1          8            16           32           64
//   4096x4096      5.3 71 %     6.1 62 %     8.7 44 %    13.2 29 %    19.1 20 %
//   6144x4096      7.8 72 %     8.5 67 %    10.7 53 %    18.3 31 %    27.6 21 %
//   24576x4096    23.4 96 %    26.5 86 %    31.4 71 %    46.8 48 %    72.4 31 %
//   4096x12288    13.1 87 %    14.1 80 %    17.9 63 %    26.0 43 %    42.7 26 %
// Above 16 rows linear_f8_sm90.cu is faster where it can run.
#pragma once

#include "kernels/cuda/context.h"
#include "kernels/cuda/f8_codes.cuh"
#include "kernels/cuda/linear_finish.cuh"
#include "kernels/cuda/linear_tile.cuh"

namespace slipstream::cuda {

struct F8LinearParams {
  const uint8_t* weight;  // [n, k] codes
  F8Scales scales;
  int32_t k;
  const uint16_t* x;      // [m, k] bf16
  int32_t stages;         // slots of a ring, 2..4
  LinearOutput o;
  LinearFinish f = {};    // by shapes whose warps share K
};

inline constexpr int kF8Stage = 256;              // elements, and bytes of a row of a weight slot
inline constexpr int kF8Block = 128;              // elements that are summed before their scale comes in
inline constexpr int kF8XRowBytes = kF8Stage * 2; // of a row of an activation slot

/// Starts the copies into a warp's slot: codes of 16 rows from row `first` on, the last eight `jump` rows further, where
/// Kernel::code_chunk puts them, and behind them the scales of the stage's two blocks.
template <class Kernel>
__device__ __forceinline__ void copy_f8_slot(const F8LinearParams& p, int first, int jump, int stage, int lane, uint8_t* to) {
  const int block_step = p.scales.block_cols / kF8Block;  // 0: one scale along the whole of K
  const int block_first = p.scales.first / kF8Block;
  const int chunk = lane % 16;
  const int64_t k = int64_t{stage} * kF8Stage + chunk * 16;
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const int row = c * 2 + lane / 16;
    const int64_t n = min(first + row + (c >= 4 ? jump : 0), p.o.n - 1);  // rows past the end are not stored
    copy16_once_or_zero(to + Kernel::code_chunk(row, chunk), p.weight + (k < p.k ? n * p.k + k : 0), k < p.k);
  }
  const int group_row = min(first + lane % 16 + (lane % 16 >= 8 ? jump : 0), p.o.n - 1) / p.scales.group_rows;
  const int block = block_step == 0 ? 0 : min((stage * 2 + lane / 16 + block_first) / block_step, p.scales.k_blocks - 1);
  copy4(to + Kernel::kCodeBytes + lane * 4, p.scales.data + int64_t{group_row} * p.scales.k_blocks + block, true);
}

template <int NT, int WR, int WK>
struct F8Kernel {
  static constexpr int kCodeBytes = 16 * kF8Stage;
  static constexpr int kSlotBytes = kCodeBytes + 2 * 16 * 4;

  __host__ __device__ static int x_rows(int m) { return m < 8 * NT ? m : 8 * NT; }
  static size_t shared_bytes(int m, int stages, bool serial) {
    return sum_bytes<NT, WR, WK>(serial) + static_cast<size_t>(stages) * WK * (WR * kSlotBytes + x_rows(m) * kF8XRowBytes);
  }

  // A lane takes 16 elements of 64: one 16-byte chunk of codes and two of activations. So that the eight lanes of a phase
  // (two rows) meet all banks, chunk c of row n stands at c ^ 4 (n & 1) for codes and c ^ (n & 1) for activations.
  __device__ static int code_chunk(int row, int chunk) { return row * kF8Stage + ((chunk ^ ((row & 1) << 2)) << 4); }
  __device__ static int x_chunk(int row, int chunk) { return row * kF8XRowBytes + ((chunk ^ (row & 1)) << 4); }

  /// One stage. x_row[nt]: offset of chunk 0 of this lane's column in each group of 8.
  __device__ static void multiply(const uint8_t* slot, const uint8_t* x, const int (&x_row)[NT], int lane, float (&acc)[NT][4]) {
    const int g = lane / 4;
    const int t = lane % 4;
    const uint8_t* w_row = slot + g * kF8Stage;
    const auto* scales = reinterpret_cast<const float*>(slot + kCodeBytes);
#pragma unroll(NT < 8 ? 2 : 1)  // with 64 rows, unrolled code runs out of registers
    for (int block = 0; block < 2; ++block) {
      float part[NT][4] = {};
#pragma unroll
      for (int j = 2 * block; j < 2 * block + 2; ++j) {
        // The order of K inside a lane's 16 elements is the same for both operands.
        const int offset = j / 2 * 128 + ((j % 2) ^ (g & 1)) * 64 + t * 16;
        const uint4 upper = *reinterpret_cast<const uint4*>(w_row + offset);
        const uint4 lower = *reinterpret_cast<const uint4*>(w_row + 8 * kF8Stage + offset);
        const uint32_t codes_upper[4] = {upper.x, upper.y, upper.z, upper.w};
        const uint32_t codes_lower[4] = {lower.x, lower.y, lower.z, lower.w};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t a[2][4];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            e4m3_to_bf16(codes_upper[2 * half + i], a[i][0], a[i][2]);
            e4m3_to_bf16(codes_lower[2 * half + i], a[i][1], a[i][3]);
          }
#pragma unroll
          for (int nt = 0; nt < NT; ++nt) {
            const uint4 v = *reinterpret_cast<const uint4*>(x + (x_row[nt] ^ half << 4) + j * 128 + t * 32);
            mma_bf16(part[nt], a[0][0], a[0][1], a[0][2], a[0][3], v.x, v.y);
            mma_bf16(part[nt], a[1][0], a[1][1], a[1][2], a[1][3], v.z, v.w);
          }
        }
      }
      const float upper_scale = scales[block * 16 + g];
      const float lower_scale = scales[block * 16 + 8 + g];
#pragma unroll
      for (int nt = 0; nt < NT; ++nt) {
        acc[nt][0] = fmaf(upper_scale, part[nt][0], acc[nt][0]);
        acc[nt][1] = fmaf(upper_scale, part[nt][1], acc[nt][1]);
        acc[nt][2] = fmaf(lower_scale, part[nt][2], acc[nt][2]);
        acc[nt][3] = fmaf(lower_scale, part[nt][3], acc[nt][3]);
      }
    }
  }

  __device__ static void run(const F8LinearParams& p) {
    extern __shared__ __align__(128) uint8_t ring[];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int wr = warp % WR;
    const int wk = warp / WR;
    const int first_col = blockIdx.z * 8 * NT;
    const int rows = x_rows(p.o.m - first_col);
    const int x_bytes = x_rows(p.o.m) * kF8XRowBytes;
    const int row_blocks = (p.o.n + 16 * WR - 1) / (16 * WR);
    const int groups = p.o.splits * WK;
    const int group = blockIdx.y * WK + wk;
    const int stage_count = (p.k + kF8Stage - 1) / kF8Stage;

    auto* sums = reinterpret_cast<float*>(ring);
    uint8_t* rings = ring + sum_bytes<NT, WR, WK>(p.o.serial);
    uint8_t* w_ring = rings + warp * p.stages * kSlotBytes;
    uint8_t* x_ring = rings + (WR * WK * kSlotBytes + wk * x_bytes) * p.stages;

    __shared__ float factors[8 * NT];
    const bool paired = WK > 1 && p.f.kind == Finish::kSwiglu;
    const auto load_weight = [&](const StageCursor& at) {
      const int tile = at.row_block * WR + wr;
      copy_f8_slot<F8Kernel>(p, paired ? min(tile * 8, p.o.n / 2 - 8) : tile * 16, paired ? p.o.n / 2 - 8 : 0, at.stage, lane,
                             w_ring + at.slot * kSlotBytes);
    };
    const int x_column = lane % 32;
    const uint16_t* x_from = p.x + int64_t{first_col + min(wr, rows - 1)} * p.k + x_column * 8;
    const auto load_x = [&](const StageCursor& at) {
      uint8_t* to = x_ring + at.slot * x_bytes;
      const bool whole = at.stage * kF8Stage + x_column * 8 < p.k;
      const int k0 = whole ? at.stage * kF8Stage : 0;
#pragma unroll
      for (int i = 0; i < (8 * NT + WR - 1) / WR; ++i) {
        const int n = wr + i * WR;
        if (n < rows) copy16(to + x_chunk(n, x_column), x_from + int64_t{i * WR} * p.k + k0, whole);
      }
    };
    int x_row[NT];  // of this lane's columns: the last row stands in for those that are not
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) x_row[nt] = x_chunk(min(nt * 8 + lane / 4, rows - 1), 0);
    walk_stages<NT, WR>(
        WK == 1 && p.o.serial ? serial_walk(stage_count, row_blocks, p.stages, sums)
                              : StageWalk{wk, group, groups, stage_count, row_blocks, p.stages},
        load_weight, load_x,
        [&](int slot, float (&acc)[NT][4]) {
          multiply(w_ring + slot * kSlotBytes, x_ring + slot * x_bytes, x_row, lane, acc);
        },
        [&](int row_block, float (&acc)[NT][4]) {
          if constexpr (WK > 1) FinishRows<NT, WR, WK>::run(acc, sums, wr, wk, row_block, row_blocks, first_col, p.f, p.o, factors);
          else reduce_and_store<NT, WR, WK>(acc, sums, wr, wk, row_block, row_blocks, first_col, p.o);
        },
        [&] {
          if constexpr (WK > 1) FinishRows<NT, WR, WK>::load_scales(p.f, p.k, first_col, rows, factors);
        });
  }
};

template <int NT, int WR, int WK>
__global__ void __launch_bounds__(32 * WR * WK, 2) f8_linear_kernel(F8LinearParams p) {
  F8Kernel<NT, WR, WK>::run(p);
}

}  // namespace slipstream::cuda
