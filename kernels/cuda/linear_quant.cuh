// Products of block-quantised weights with int8 activations on int8 tensor cores (mma.sync, SM80 and newer): the kernel
// template. linear_quant_*.cu instantiate it.
//
// A warp owns a 16-row tile and some stages (256 elements of K) of it; weights are the 16-row operand, so that 1 to 8
// activation rows cost one instruction. A block is WR tiles x WK warps that share K. Stages come through a ring of
// `stages` slots in shared memory: each warp's weights are its own, the activations of a stage are shared by the WR warps
// of a K group. Arithmetic is that of kernels/README.md: exact integer dots per scale, then
//   acc = fma(dot, w_scale * x_scale, acc)
// and the minima of a stage, [16 rows, 8 blocks] times x_scale * sum(x) [8 blocks, m], are one TF32 product more, with the
// right operand in two parts, so that only bits below 2^-21 are lost (Q2_K: a minimum per 16, where sum(x) is a product
// with a matrix of ones).
// The products are bound by the issue of instructions well before the tensor cores: a stage is straight code, addresses
// in it are constants, and scales become floats by one permutation and one fma (see RowScales).
//
// A block goes through several WR-tile row blocks when the grid has fewer; its loads run ahead across them.
//
// Grid: (row blocks or fewer, splits, m / (8 NT)); 32 WR WK threads; dynamic shared memory from shared_bytes().
// Bytes: the weight once per 8 NT activation rows; the activations once per WR tiles, from L2.
//
// Measured on an H200 (read ceiling 4.43-4.52 TB/s, weights cold, graph replays), us and share of the ceiling:
//                 M 1          8            16           32           64
//   Q4_K 4096x14336   10.2 72 %    12.4 59 %    18.7 40 %    30.1 26 %    55.8 14 %
//   Q8_0 4096x14336   14.7 94 %    15.6 89 %    19.3 72 %    24.9 57 %    42.7 34 %
//   Q4_K 24576x4096   16.9 76 %    19.0 68 %    26.4 50 %    49.1 28 %    82.7 17 %
// What limits Q4_K from M = 8 on is not the tensor cores (an int8 m16n8k32 takes 7.5 cycles of a sub-core, a product here
// some 45) but issue slots and shared memory: 15 instructions and 4 wavefronts for each 16 x 8 x 32 product. Bulk copies
// of the activation rows (24 of 32 to 256 bytes a stage) were tried and made it slower: 18.2 us at M = 8.
#pragma once

#include "kernels/cuda/context.h"
#include "kernels/cuda/linear_tile.cuh"
#include "kernels/cuda/packed_format.cuh"

namespace slipstream::cuda {

struct QuantLinearParams {
  const uint8_t* weight;  // [tiles] packed tiles
  int64_t tile_bytes;
  int32_t tiles;
  int32_t k;
  const int8_t* x;        // [m, k]
  const float* x_scale;   // [m, k / 32]
  const int32_t* x_sum;   // [m, k / 32]
  int32_t stages;         // slots of a ring, 2..4
  LinearOutput o;
};

inline constexpr int kXRowBytes = kStageElements + 32;  // so that 8-byte reads of 4 neighbouring rows meet all banks

/// Adding this to an integer below 2^22 in magnitude, as bits, gives the float kIntegerFloat + the integer.
inline constexpr int kIntegerBits = 0x4b400000;
inline constexpr float kIntegerFloat = 12582912.0f;
__device__ inline float dot_value(int bits) { return __int_as_float(bits) - kIntegerFloat; }

template <DType D, int NT, int WR, int WK>
struct QuantKernel {
  static constexpr PackedFormat F = packed_format(D);
  static constexpr int kThreads = 32 * WR * WK;
  static constexpr int kSlotBytes = F.stage_bytes();
  static constexpr int kPairBytes = F.pair_bytes();
  static constexpr int kScaleBytes = F.scale_bytes();

  /// Rows of activations that a block keeps: the unused columns of the operand repeat the last.
  __host__ __device__ static int x_rows(int m) { return m < 8 * NT ? m : 8 * NT; }
  /// x_slot: rows of kXRowBytes, then x_scale [8 blocks][8 NT], then x_sum likewise for kMinProduct.
  static constexpr bool kMinProduct = F.has_min && !F.per16;
  static constexpr int kXScales = kStageBlocks * 8 * NT;
  __host__ __device__ static int x_slot_bytes(int m) { return x_rows(m) * kXRowBytes + kXScales * (kMinProduct ? 8 : 4); }
  /// What the products of offset formats are divided by: their codes stand at the top of a byte.
  static constexpr float kFactor = 1.0f / static_cast<float>(1 << F.top_shift());
  static size_t shared_bytes(int m, int stages, bool serial) {
    return sum_bytes<NT, WR, WK>(serial) + static_cast<size_t>(stages) * (WR * WK * kSlotBytes + WK * x_slot_bytes(m));
  }

  /// The operand registers of both blocks of a pair.
  __device__ static void unpack(const uint8_t* stage, int pair, int lane, uint32_t (&a)[2][4]) {
    const uint8_t* plane = stage;
    constexpr int kTop = F.top_shift();
    if constexpr (F.int8) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint4 v = reinterpret_cast<const uint4*>(plane + pair * 1024 + h * 512)[lane];
        a[h][0] = v.x, a[h][1] = v.y, a[h][2] = v.z, a[h][3] = v.w;
      }
      return;
    }
    if constexpr (F.low4) {
      const uint4 v = reinterpret_cast<const uint4*>(plane + pair * 512)[lane];
      const uint32_t w[4] = {v.x, v.y, v.z, v.w};
      plane += kStagePairs * 512;
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32_t word = w[2 * h + r];
          if constexpr (F.table) {
            table_bytes(word, &a[h][r], &a[h][r + 2]);
          } else {
            constexpr uint32_t kMask = 0x0f0f0f0fu << kTop;
            a[h][r] = (word << kTop) & kMask;
            a[h][r + 2] = (kTop == 4 ? word : word >> (4 - kTop)) & kMask;
          }
        }
    }
    if constexpr (F.bits2) {
      constexpr int kShift = F.low4 ? 4 + kTop : kTop;  // where the two bits go in a byte
      const uint2 v = reinterpret_cast<const uint2*>(plane + pair * 256)[lane];
      plane += kStagePairs * 256;
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const uint32_t word = h == 0 ? v.x : v.y;
          const uint32_t bits = (2 * r > kShift ? word >> (2 * r > kShift ? 2 * r - kShift : 0)
                                                : word << (2 * r > kShift ? 0 : kShift - 2 * r)) &
                                (0x03030303u << kShift);
          a[h][r] = F.low4 ? a[h][r] | bits : bits;
        }
    }
    if constexpr (F.bits1) {
      constexpr int kShift = F.bits - 1 + kTop;
      const uint32_t word = reinterpret_cast<const uint32_t*>(plane + pair * 128)[lane];
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int from = 4 * h + r;
          a[h][r] |= (from > kShift ? word >> (from > kShift ? from - kShift : 0) : word << (from > kShift ? 0 : kShift - from)) &
                     (0x01010101u << kShift);
        }
    }
  }

  /// The table values of eight nibbles: 0..3 to *low, 4..7 to *high.
  __device__ static void table_bytes(uint32_t word, uint32_t* low, uint32_t* high) {
    if constexpr (F.table) {
      using T = CodeTable<D>;
      const uint32_t index = word & 0x77777777u;                            // in its half of the table
      const uint32_t upper = ((word & 0x88888888u) >> 1) | 0x32103210u;     // which half
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t from_low = __byte_perm(T::word(0), T::word(1), index >> (16 * i));
        const uint32_t from_high = __byte_perm(T::word(2), T::word(3), index >> (16 * i));
        *(i == 0 ? low : high) = __byte_perm(from_low, from_high, upper >> (16 * i));
      }
    }
  }

  /// Scales of one row of a stage, kept as stored until a block needs them. Byte scales become floats without a
  /// conversion: the byte as part of the float 2^15 + byte, then one fma with d and -2^15 d, which is exact.
  struct RowScales {
    uint4 packed, packed_min;
    float d, d_base, dmin, dmin_base;

    static constexpr bool kSigned = F.scales == ScaleLayout::kSub || F.scales == ScaleLayout::kSub16;

    __device__ void load(const uint8_t* scales, int row) {
      if constexpr (F.scales == ScaleLayout::kHalf) {
        packed = reinterpret_cast<const uint4*>(scales)[row];
        if constexpr (F.has_min) packed_min = reinterpret_cast<const uint4*>(scales + 256)[row];
      } else if constexpr (F.scales == ScaleLayout::kExponent || F.scales == ScaleLayout::kSub) {
        const uint2 v = reinterpret_cast<const uint2*>(scales)[row];
        packed.x = v.x, packed.y = v.y;
        if constexpr (F.scales == ScaleLayout::kSub) d = __half2float(reinterpret_cast<const __half*>(scales + 128)[row]);
      } else {
        packed = reinterpret_cast<const uint4*>(scales)[row];
        if constexpr (F.scales == ScaleLayout::kSub16) {
          d = __half2float(reinterpret_cast<const __half*>(scales + 256)[row]);
        } else {
          const float2 both = __half22float2(reinterpret_cast<const __half2*>(scales + 256)[row]);
          d = both.x;
          dmin = -both.y;
          dmin_base = -32768.0f * dmin;
        }
        if constexpr (F.scales == ScaleLayout::kSubNibbles16) {
          packed_min.x = (packed.x >> 4) & 0x0f0f0f0fu, packed.x &= 0x0f0f0f0fu;
          packed_min.y = (packed.y >> 4) & 0x0f0f0f0fu, packed.y &= 0x0f0f0f0fu;
          packed_min.z = (packed.z >> 4) & 0x0f0f0f0fu, packed.z &= 0x0f0f0f0fu;
          packed_min.w = (packed.w >> 4) & 0x0f0f0f0fu, packed.w &= 0x0f0f0f0fu;
        }
      }
      if constexpr (kSigned) {  // a signed byte with its top bit flipped is byte + 128
        packed.x ^= 0x80808080u, packed.y ^= 0x80808080u;
        if constexpr (F.scales == ScaleLayout::kSub16) packed.z ^= 0x80808080u, packed.w ^= 0x80808080u;
      }
      d_base = (kSigned ? -(32768.0f + 128.0f) : -32768.0f) * d;
    }
    __device__ static uint32_t word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
    __device__ static float half_of(const uint4& v, int i) {
      const uint32_t w = word(v, i / 2);
      return half_bits_to_float(static_cast<uint16_t>(i % 2 == 0 ? w & 0xffffu : w >> 16));
    }
    /// 2^15 + byte i.
    __device__ static float based(const uint4& v, int i) {
      return __uint_as_float(__byte_perm(word(v, i / 4), 0x47000000u, 0x7404u + (static_cast<uint32_t>(i % 4) << 4)));
    }
    /// Of elements 16 half.. of block b; `half` is 0 unless the format has a scale per 16. Without kFactor.
    __device__ float scale(int b, int half) const {
      if constexpr (F.scales == ScaleLayout::kHalf) return half_of(packed, b);
      if constexpr (F.scales == ScaleLayout::kExponent) return exponent_scale((word(packed, b / 4) >> (8 * (b % 4))) & 255u);
      return fmaf(based(packed, F.per16 ? 2 * b + half : b), d, d_base);
    }
    /// What `min_code` is multiplied with.
    __device__ float min_factor() const { return F.scales == ScaleLayout::kHalf ? 1.0f : dmin; }
    /// Of block b, unscaled, read from the stage.
    __device__ static float min_code(const uint8_t* scales, int row, int b) {
      if constexpr (F.scales == ScaleLayout::kHalf) return __half2float(reinterpret_cast<const __half*>(scales + 256)[row * 8 + b]);
      return static_cast<float>(scales[row * 16 + 8 + b]);
    }
    __device__ float min(int b, int half) const {
      if constexpr (F.scales == ScaleLayout::kHalf) return half_of(packed_min, b);
      if constexpr (F.scales == ScaleLayout::kSubMin) return fmaf(based(packed, 8 + b), dmin, dmin_base);
      return fmaf(based(packed_min, 2 * b + half), dmin, dmin_base);
    }
  };

  __device__ static void accumulate(float (&acc)[4], const int (&dots)[4], float w0, float w1, float2 xs) {
    acc[0] = fmaf(dot_value(dots[0]), w0 * xs.x, acc[0]);
    acc[1] = fmaf(dot_value(dots[1]), w0 * xs.y, acc[1]);
    acc[2] = fmaf(dot_value(dots[2]), w1 * xs.x, acc[2]);
    acc[3] = fmaf(dot_value(dots[3]), w1 * xs.y, acc[3]);
  }
  __device__ static void accumulate_min(float (&acc)[4], const int (&sums)[4], float m0, float m1, float2 xs) {
    const float s0 = xs.x * dot_value(sums[0]);
    const float s1 = xs.y * dot_value(sums[1]);
    acc[0] = fmaf(m0, s0, acc[0]);
    acc[1] = fmaf(m0, s1, acc[1]);
    acc[2] = fmaf(m1, s0, acc[2]);
    acc[3] = fmaf(m1, s1, acc[3]);
  }

  /// One stage. x: rows of kXRowBytes, the lane's column of each group at x_row[nt]; x_scale [8 blocks][8 NT].
  __device__ static void multiply(const uint8_t* w, const uint8_t* x, const int (&x_row)[NT], const float* x_scale, int lane,
                                  float (&acc)[NT][4]) {
    const int g = lane / 4;
    const int t = lane % 4;
    RowScales s0, s1;
    s0.load(w + kStagePairs * kPairBytes, g);
    s1.load(w + kStagePairs * kPairBytes, g + 8);
    constexpr uint32_t kOnes = 0x01010101u;
    if constexpr (kMinProduct) {
      const uint8_t* scales = w + kStagePairs * kPairBytes;
      const float a0 = RowScales::min_code(scales, g, t), a1 = RowScales::min_code(scales, g + 8, t);
      const float a2 = RowScales::min_code(scales, g, t + 4), a3 = RowScales::min_code(scales, g + 8, t + 4);
      const int32_t* x_sum = reinterpret_cast<const int32_t*>(x_scale + kXScales);
      const float f0 = s0.min_factor(), f1 = s1.min_factor();
#pragma unroll
      for (int nt = 0; nt < NT; ++nt) {
        const int at0 = t * 8 * NT + nt * 8 + g;
        const int at1 = at0 + 4 * 8 * NT;
        const float b0 = x_scale[at0] * static_cast<float>(x_sum[at0]);
        const float b1 = x_scale[at1] * static_cast<float>(x_sum[at1]);
        const float high0 = __uint_as_float(__float_as_uint(b0) & 0xffffe000u);
        const float high1 = __uint_as_float(__float_as_uint(b1) & 0xffffe000u);
        float sums[4] = {};
        mma_tf32(sums, a0, a1, a2, a3, b0 - high0, b1 - high1);
        mma_tf32(sums, a0, a1, a2, a3, high0, high1);
        acc[nt][0] = fmaf(f0, sums[0], acc[nt][0]);
        acc[nt][1] = fmaf(f0, sums[1], acc[nt][1]);
        acc[nt][2] = fmaf(f1, sums[2], acc[nt][2]);
        acc[nt][3] = fmaf(f1, sums[3], acc[nt][3]);
      }
    }
#pragma unroll
    for (int pair = 0; pair < kStagePairs; ++pair) {
      uint32_t a[2][4];
      unpack(w, pair, lane, a);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int b = 2 * pair + h;
        const float w0 = s0.scale(b, 0), w1 = s1.scale(b, 0);
        if constexpr (F.per16) {
          const float w01 = s0.scale(b, 1), w11 = s1.scale(b, 1);
          float m0 = 0, m1 = 0, m01 = 0, m11 = 0;
          if constexpr (F.has_min) m0 = s0.min(b, 0), m1 = s1.min(b, 0), m01 = s0.min(b, 1), m11 = s1.min(b, 1);
#pragma unroll
          for (int nt = 0; nt < NT; ++nt) {
            const auto* block = reinterpret_cast<const uint32_t*>(x + x_row[nt] + b * kBlock);
            const uint32_t b0 = block[t];
            const uint32_t b1 = block[4 + t];
            const float2 xs = *reinterpret_cast<const float2*>(x_scale + b * 8 * NT + nt * 8 + 2 * t);
            int dots[4];
            mma_s8_k16(dots, a[h][0], a[h][1], b0, kIntegerBits);
            accumulate(acc[nt], dots, w0, w1, xs);
            mma_s8_k16(dots, a[h][2], a[h][3], b1, kIntegerBits);
            accumulate(acc[nt], dots, w01, w11, xs);
            if constexpr (F.has_min) {
              mma_s8_k16(dots, kOnes, kOnes, b0, kIntegerBits);
              accumulate_min(acc[nt], dots, m0, m1, xs);
              mma_s8_k16(dots, kOnes, kOnes, b1, kIntegerBits);
              accumulate_min(acc[nt], dots, m01, m11, xs);
            }
          }
        } else {
#pragma unroll
          for (int nt = 0; nt < NT; ++nt) {
            const uint2 v = reinterpret_cast<const uint2*>(x + x_row[nt] + b * kBlock)[t];
            const float2 xs = *reinterpret_cast<const float2*>(x_scale + b * 8 * NT + nt * 8 + 2 * t);
            int dots[4];
            mma_s8_k32(dots, a[h][0], a[h][1], a[h][2], a[h][3], v.x, v.y, kIntegerBits);
            accumulate(acc[nt], dots, w0, w1, xs);
          }
        }
      }
    }
  }

  __device__ static void run(const QuantLinearParams& p) {
    extern __shared__ __align__(128) uint8_t ring[];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int wr = warp % WR;
    const int wk = warp / WR;
    const int first_col = blockIdx.z * 8 * NT;
    const int rows = x_rows(p.o.m - first_col);
    const int x_bytes = x_slot_bytes(p.o.m);
    const int row_blocks = (p.tiles + WR - 1) / WR;
    const int groups = p.o.splits * WK;
    const int group = blockIdx.y * WK + wk;
    const int stage_count = (p.k + kStageElements - 1) / kStageElements;
    const int k_blocks = p.k / kBlock;

    auto* sums = reinterpret_cast<float*>(ring);
    uint8_t* rings = ring + sum_bytes<NT, WR, WK>(p.o.serial);
    uint8_t* w_ring = rings + warp * p.stages * kSlotBytes;
    uint8_t* x_ring = rings + (WR * WK * kSlotBytes + wk * x_bytes) * p.stages;

    const auto load_weight = [&](const StageCursor& at) {
      const int64_t tile = min(at.row_block * WR + wr, p.tiles - 1);  // a spare warp repeats the last tile, unstored
      const uint8_t* from = p.weight + tile * p.tile_bytes + int64_t{at.stage} * kSlotBytes + lane * 16;
      uint8_t* to = w_ring + at.slot * kSlotBytes + lane * 16;
#pragma unroll
      for (int c = 0; c < (kSlotBytes + 511) / 512; ++c)
        if (c * 512 + 512 <= kSlotBytes || c * 512 + lane * 16 < kSlotBytes) copy16_once(to + c * 512, from + c * 512);
    };
    // Each lane copies one 16-byte chunk of every 2 WR-th row, and one block's scale of every 4 WR-th; past K, zeros.
    const int chunk = lane % 16;
    const int chunk_row = wr * 2 + lane / 16;
    const int scale_block = lane % kStageBlocks;
    const int scale_row = wr * 4 + lane / kStageBlocks;
    const int8_t* x_from = p.x + int64_t{first_col + min(chunk_row, rows - 1)} * p.k + chunk * 16;
    const int64_t scale_from = int64_t{first_col + min(scale_row, rows - 1)} * k_blocks + scale_block;
    const int chunk_to = chunk_row * kXRowBytes + chunk * 16;
    const int scale_to = rows * kXRowBytes + (scale_block * 8 * NT + scale_row) * 4;
    const auto load_x = [&](const StageCursor& at) {
      uint8_t* to = x_ring + at.slot * x_bytes;
      const bool whole = at.stage * kStageElements + chunk * 16 < p.k;
      const int8_t* from = whole ? x_from + at.stage * kStageElements : p.x;
      uint8_t* row_to = to + chunk_to;
#pragma unroll 1
      for (int n = chunk_row; n < rows; n += 2 * WR, from += whole ? 2 * WR * p.k : 0, row_to += 2 * WR * kXRowBytes)
        copy16(row_to, from, whole);
      const bool scaled = at.stage * kStageBlocks + scale_block < k_blocks;
      int64_t from_scale = scaled ? scale_from + at.stage * kStageBlocks : 0;
      uint8_t* scale = to + scale_to;
#pragma unroll 1
      for (int n = scale_row; n < rows; n += 4 * WR, from_scale += scaled ? 4 * WR * k_blocks : 0, scale += 4 * WR * 4) {
        copy4(scale, p.x_scale + from_scale, scaled);
        if constexpr (kMinProduct) copy4(scale + kXScales * 4, p.x_sum + from_scale, scaled);
      }
    };
    int x_row[NT];  // of this lane's column in each group of 8: the last row stands in for those that are not
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) x_row[nt] = min(nt * 8 + lane / 4, rows - 1) * kXRowBytes;
    walk_stages<NT, WR>(
        WK == 1 && p.o.serial ? serial_walk(stage_count, row_blocks, p.stages, sums)
                              : StageWalk{wk, group, groups, stage_count, row_blocks, p.stages},
        load_weight, load_x,
        [&](int slot, float (&acc)[NT][4]) {
          const uint8_t* x_slot = x_ring + slot * x_bytes;
          multiply(w_ring + slot * kSlotBytes, x_slot, x_row, reinterpret_cast<const float*>(x_slot + rows * kXRowBytes), lane, acc);
        },
        [&](int row_block, float (&acc)[NT][4]) {
          if constexpr (F.top_shift() != 0) {
#pragma unroll
            for (int nt = 0; nt < NT; ++nt)
              for (float& sum : acc[nt]) sum *= kFactor;
          }
          reduce_and_store<NT, WR, WK>(acc, sums, wr, wk, row_block, row_blocks, first_col, p.o);
        });
  }
};

template <DType D, int NT, int WR, int WK>
__global__ void __launch_bounds__(32 * WR * WK, NT < 8 ? 2 : 1) quant_linear_kernel(QuantLinearParams p) {
  QuantKernel<D, NT, WR, WK>::run(p);
}

}  // namespace slipstream::cuda
