// Products of block-quantised weights with int8 activations on int8 tensor cores (mma.sync, SM80 and newer): the kernel
// template. linear_quant_*.cu instantiate it.
//
// A warp owns a 16-row tile and some stages (256 elements of K) of it; weights are the 16-row operand, so that 1 to 8
// activation rows cost one instruction. A block is WR tiles x WK warps that share K. Stages come through a ring of
// `stages` slots in shared memory: each warp's weights are its own, the activations of a stage are shared by the WR warps
// of a K group. Arithmetic is that of kernels/README.md: exact integer dots per scale, then
//   acc = fma(dot, w_scale * x_scale, acc); acc = fma(w_min, x_scale * sum(x), acc)
// with stages summed warp by warp. sum(x) is a product with a matrix of ones, in the layout of the sums.
//
// Grid: (tiles / WR, splits, m / (8 NT)); 32 WR WK threads; dynamic shared memory from shared_bytes().
// Bytes: the weight once per 8 NT activation rows; the activations once per WR tiles, from L2.
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
  int32_t stages;         // slots of a ring, 2..4
  LinearOutput o;
};

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
  __host__ __device__ static int x_slot_bytes(int m) { return x_rows(m) * kStageElements + kStageBlocks * 8 * NT * 4; }
  static size_t shared_bytes(int m, int stages) {
    const size_t ring = static_cast<size_t>(stages) * (WR * WK * kSlotBytes + WK * x_slot_bytes(m));
    const size_t sums = static_cast<size_t>(WK) * WR * 16 * NT * 8 * 4;
    return ring > sums ? ring : sums;
  }

  /// The operand registers of both blocks of a pair.
  __device__ static void unpack(const uint8_t* stage, int pairs, int pair, int lane, uint32_t (&a)[2][4]) {
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
      plane += pairs * 512;
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
      plane += pairs * 256;
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

  /// Scales of one row of a stage, kept as stored until a block needs them.
  struct RowScales {
    uint4 packed, packed_min;
    float d, dmin;

    __device__ void load(const uint8_t* scales, int row) {
      constexpr float kFactor = 1.0f / static_cast<float>(1 << F.top_shift());
      if constexpr (F.scales == ScaleLayout::kHalf) {
        packed = reinterpret_cast<const uint4*>(scales)[row];
        if constexpr (F.has_min) packed_min = reinterpret_cast<const uint4*>(scales + 256)[row];
        d = kFactor;
      } else if constexpr (F.scales == ScaleLayout::kExponent || F.scales == ScaleLayout::kSub) {
        const uint2 v = reinterpret_cast<const uint2*>(scales)[row];
        packed.x = v.x, packed.y = v.y;
        if constexpr (F.scales == ScaleLayout::kSub)
          d = __half2float(reinterpret_cast<const __half*>(scales + 128)[row]) * kFactor;
      } else {
        packed = reinterpret_cast<const uint4*>(scales)[row];
        if constexpr (F.scales == ScaleLayout::kSub16) {
          d = __half2float(reinterpret_cast<const __half*>(scales + 256)[row]) * kFactor;
        } else {
          const float2 both = __half22float2(reinterpret_cast<const __half2*>(scales + 256)[row]);
          d = both.x * kFactor;
          dmin = -both.y;
        }
      }
    }
    __device__ static uint32_t word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
    __device__ static uint32_t byte(const uint4& v, int i) { return (word(v, i / 4) >> (8 * (i % 4))) & 255u; }
    __device__ static float half_of(const uint4& v, int i) {
      const uint32_t w = word(v, i / 2);
      return half_bits_to_float(static_cast<uint16_t>(i % 2 == 0 ? w & 0xffffu : w >> 16));
    }
    /// Of elements 16 half.. of block b; `half` is 0 unless the format has a scale per 16.
    __device__ float scale(int b, int half) const {
      if constexpr (F.scales == ScaleLayout::kHalf) return F.offset ? half_of(packed, b) * d : half_of(packed, b);
      if constexpr (F.scales == ScaleLayout::kExponent) return exponent_scale(byte(packed, b));
      if constexpr (F.scales == ScaleLayout::kSub) return d * static_cast<float>(static_cast<int8_t>(byte(packed, b)));
      if constexpr (F.scales == ScaleLayout::kSubMin) return d * static_cast<float>(byte(packed, b));
      if constexpr (F.scales == ScaleLayout::kSub16)
        return d * static_cast<float>(static_cast<int8_t>(byte(packed, 2 * b + half)));
      return d * static_cast<float>(byte(packed, 2 * b + half) & 15u);
    }
    __device__ float min(int b, int half) const {
      if constexpr (F.scales == ScaleLayout::kHalf) return half_of(packed_min, b);
      if constexpr (F.scales == ScaleLayout::kSubMin) return dmin * static_cast<float>(byte(packed, 8 + b));
      return dmin * static_cast<float>(byte(packed, 2 * b + half) >> 4);
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

  /// x: [rows][256] with 32-byte granule b of row n at granule b ^ (n & 7); x_scale [8 blocks][8 NT].
  __device__ static void multiply(const uint8_t* w, const uint8_t* x, const float* x_scale, int rows, int blocks, int lane,
                                  float (&acc)[NT][4]) {
    const int g = lane / 4;
    const int t = lane % 4;
    const int pairs = (blocks + 1) / 2;
    RowScales s0, s1;
    s0.load(w + pairs * kPairBytes, g);
    s1.load(w + pairs * kPairBytes, g + 8);
    const uint8_t* x_row[NT];
    int swizzle[NT];
#pragma unroll
    for (int nt = 0; nt < NT; ++nt) {
      const int n = min(nt * 8 + g, rows - 1);
      x_row[nt] = x + n * kStageElements;
      swizzle[nt] = (n & 7) * 32;
    }
    constexpr uint32_t kOnes = 0x01010101u;
#pragma unroll
    for (int pair = 0; pair < kStageBlocks / 2; ++pair) {
      if (pair >= pairs) break;
      uint32_t a[2][4];
      unpack(w, pairs, pair, lane, a);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int b = 2 * pair + h;
        if (h == 1 && b >= blocks) break;
        if constexpr (F.per16) {
          const float w00 = s0.scale(b, 0), w01 = s0.scale(b, 1), w10 = s1.scale(b, 0), w11 = s1.scale(b, 1);
          float m00 = 0, m01 = 0, m10 = 0, m11 = 0;
          if constexpr (F.has_min) m00 = s0.min(b, 0), m01 = s0.min(b, 1), m10 = s1.min(b, 0), m11 = s1.min(b, 1);
#pragma unroll
          for (int nt = 0; nt < NT; ++nt) {
            const auto* granule = reinterpret_cast<const uint32_t*>(x_row[nt] + ((b * 32) ^ swizzle[nt]));
            const uint32_t b0 = granule[t];
            const uint32_t b1 = granule[4 + t];
            const float2 xs = *reinterpret_cast<const float2*>(x_scale + b * 8 * NT + nt * 8 + 2 * t);
            int dots[4];
            mma_s8_k16(dots, a[h][0], a[h][1], b0, kIntegerBits);
            accumulate(acc[nt], dots, w00, w10, xs);
            mma_s8_k16(dots, a[h][2], a[h][3], b1, kIntegerBits);
            accumulate(acc[nt], dots, w01, w11, xs);
            if constexpr (F.has_min) {
              mma_s8_k16(dots, kOnes, kOnes, b0, kIntegerBits);
              accumulate_min(acc[nt], dots, m00, m10, xs);
              mma_s8_k16(dots, kOnes, kOnes, b1, kIntegerBits);
              accumulate_min(acc[nt], dots, m01, m11, xs);
            }
          }
        } else {
          const float w0 = s0.scale(b, 0), w1 = s1.scale(b, 0);
          float m0 = 0, m1 = 0;
          if constexpr (F.has_min) m0 = s0.min(b, 0), m1 = s1.min(b, 0);
#pragma unroll
          for (int nt = 0; nt < NT; ++nt) {
            const uint2 v = reinterpret_cast<const uint2*>(x_row[nt] + ((b * 32) ^ swizzle[nt]))[t];
            const float2 xs = *reinterpret_cast<const float2*>(x_scale + b * 8 * NT + nt * 8 + 2 * t);
            int dots[4];
            mma_s8_k32(dots, a[h][0], a[h][1], a[h][2], a[h][3], v.x, v.y, kIntegerBits);
            accumulate(acc[nt], dots, w0, w1, xs);
            if constexpr (F.has_min) {
              mma_s8_k32(dots, kOnes, kOnes, kOnes, kOnes, v.x, v.y, kIntegerBits);
              accumulate_min(acc[nt], dots, m0, m1, xs);
            }
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
    const int64_t first_tile = int64_t{blockIdx.x} * WR;
    const int64_t tile = min(first_tile + wr, int64_t{p.tiles} - 1);  // a spare warp repeats the last tile, unstored
    const int first_col = blockIdx.z * 8 * NT;
    const int rows = x_rows(p.o.m - first_col);
    const int x_bytes = x_slot_bytes(p.o.m);

    const int groups = p.o.splits * WK;
    const int group = blockIdx.y * WK + wk;
    const int stage_count = (p.k + kStageElements - 1) / kStageElements;
    const int mine = group < stage_count ? (stage_count - 1 - group) / groups + 1 : 0;

    uint8_t* w_ring = ring + warp * p.stages * kSlotBytes;
    uint8_t* x_ring = ring + (WR * WK * kSlotBytes + wk * x_bytes) * p.stages;
    const uint8_t* w_tile = p.weight + tile * p.tile_bytes;
    const int k_blocks = p.k / kBlock;

    const auto load_weight = [&](int i, int slot) {
      const int stage = group + i * groups;
      const int bytes = (stage_blocks(p.k, int64_t{stage} * kStageBlocks) + 1) / 2 * kPairBytes + kScaleBytes;
      const uint8_t* from = w_tile + int64_t{stage} * kSlotBytes;
      uint8_t* to = w_ring + slot * kSlotBytes;
#pragma unroll
      for (int c = 0; c < (kSlotBytes + 511) / 512; ++c) {
        const int at = c * 512 + lane * 16;
        if (at < bytes) copy16_once(to + at, from + at);
      }
    };
    const auto load_x = [&](int i, int slot) {
      const int stage = group + i * groups;
      const int blocks = stage_blocks(p.k, int64_t{stage} * kStageBlocks);
      uint8_t* to = x_ring + slot * x_bytes;
      const int8_t* from = p.x + int64_t{first_col} * p.k + int64_t{stage} * kStageElements;
      for (int c = wr * 32 + lane; c < rows * 16; c += WR * 32) {
        const int n = c / 16;
        const int chunk = c % 16;  // 16 bytes: half a granule
        if (chunk < 2 * blocks) copy16(to + n * kStageElements + ((chunk * 16) ^ ((n & 7) * 32)), from + int64_t{n} * p.k + chunk * 16);
      }
      float* scales = reinterpret_cast<float*>(to + rows * kStageElements);
      const float* scale_from = p.x_scale + int64_t{first_col} * k_blocks + stage * kStageBlocks;
      for (int c = wr * 32 + lane; c < rows * kStageBlocks; c += WR * 32) {
        const int n = c / kStageBlocks;
        const int b = c % kStageBlocks;
        if (b < blocks) copy4(scales + b * 8 * NT + n, scale_from + int64_t{n} * k_blocks + b);
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
      const int blocks = stage_blocks(p.k, int64_t{group + i * groups} * kStageBlocks);
      const uint8_t* x_slot = x_ring + slot * x_bytes;
      multiply(w_ring + slot * kSlotBytes, x_slot, reinterpret_cast<const float*>(x_slot + rows * kStageElements), rows,
               blocks, lane, acc);
      slot = slot + 1 == p.stages ? 0 : slot + 1;
      free_slot = free_slot + 1 == p.stages ? 0 : free_slot + 1;
    }
    wait_copies<0>();
    __syncthreads();
    reduce_and_store<NT, WR, WK>(acc, reinterpret_cast<float*>(ring), wr, wk, first_tile * kTileRows, first_col, p.o);
  }
};

template <DType D, int NT, int WR, int WK>
__global__ void __launch_bounds__(32 * WR * WK) quant_linear_kernel(QuantLinearParams p) {
  QuantKernel<D, NT, WR, WK>::run(p);
}

}  // namespace slipstream::cuda
