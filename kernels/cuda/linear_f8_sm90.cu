// F8_E4M3 products with 9 and more activation rows on Hopper's warpgroup products: the plan of linear_f8.cuh with one warp
// group of K, where four neighbouring warps multiply together. Their 64 rows of codes become BF16 in registers, which are the
// left operand; the activations are the right one, from shared memory. mma.sync is bound by its reads of activations there:
// each warp reads all of them for its 16 rows.
//
// Slots: codes as in linear_f8.cuh, but chunk c of row n at c ^ (n % 8), since a lane reads pairs of codes of eight rows;
// activations in four tiles of 64 elements, rows of 128 bytes in the tensor cores' own swizzle.
//
// Grid: (row blocks of 16 WR, or fewer, splits, m / (8 NT)); 32 WR threads. k is a multiple of 16.
// Bytes: the codes once per 8 NT activation rows; the activations once per row block, from L2.
//
// Measured on an H200 as in linear_f8.cuh, us; mma.sync in brackets:
//                  M 16          24            32            64            128
//   4096x4096      (8.7)        10.5 (12.0)   12.1 (13.2)   17.0 (19.1)   21.9 (27.9)
//   6144x4096     (10.7)        14.3 (16.1)   15.9 (18.0)   21.7 (27.4)   31.2 (45.9)
//   24576x4096    29.3 (31.4)   36.4 (43.0)   38.9 (46.4)   61.9 (71.4)   91.5 (136.4)
//   4096x12288    (17.8)        21.8 (22.8)   23.8 (26.2)   31.9 (42.5)   51.1 (75.4)
#include "kernels/check.h"
#include "kernels/cuda/attention_wgmma.cuh"
#include "kernels/cuda/linear_f8.cuh"
#include "kernels/cuda/linear_launch.cuh"

namespace slipstream::cuda {
namespace {

constexpr int kSteps = kF8Block / 16;  // products of 16 elements before a scale comes in

/// d [64, 8 NT] (+)= a [64, 16] b [16, 8 NT]; d is replaced where add is 0.
#define SLIP_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SLIP_A "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)
__device__ __forceinline__ void wgmma_add(float (&d)[8], const uint32_t (&a)[4], uint64_t b, int add) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %13, 0; "
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, p, 1, 1, 0;}"
      : SLIP_D8(0)
      : SLIP_A);
}
__device__ __forceinline__ void wgmma_add(float (&d)[16], const uint32_t (&a)[4], uint64_t b, int add) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %21, 0; "
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, p, 1, 1, 0;}"
      : SLIP_D8(0), SLIP_D8(8)
      : SLIP_A);
}
__device__ __forceinline__ void wgmma_add(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int add) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %37, 0; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;}"
      : SLIP_D8(0), SLIP_D8(8), SLIP_D8(16), SLIP_D8(24)
      : SLIP_A);
}
#undef SLIP_D8
#undef SLIP_A

template <int NT, int WR>
struct F8Wgmma {
  static constexpr int kTileBytes = 8 * NT * 128;  // activations of 64 elements
  static constexpr int kXBytes = kF8Stage / 64 * kTileBytes;
  static constexpr int kCodeBytes = 16 * kF8Stage;
  static constexpr int kSlotBytes = kCodeBytes + 2 * 16 * 4;  // a warp's codes and scales

  static size_t shared_bytes(int stages) { return 1024 + static_cast<size_t>(stages) * (WR * kSlotBytes + kXBytes); }

  __device__ static int code_chunk(int row, int chunk) { return row * kF8Stage + ((chunk ^ (row & 7)) << 4); }
  __device__ static int x_chunk(int row, int chunk) {
    return chunk / 8 * kTileBytes + row * 128 + (((chunk ^ row) & 7) << 4);
  }

  /// One stage. x: shared address of its activations.
  __device__ static void multiply(const uint8_t* slot, uint32_t x, int lane, float (&acc)[NT][4]) {
    const int g = lane / 4;
    const int t = lane % 4;
    const uint8_t* w_row = slot + g * kF8Stage + 2 * t;
    const auto* scales = reinterpret_cast<const float*>(slot + kCodeBytes);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      uint32_t a[kSteps][4];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const uint8_t* from = w_row + (((block * kSteps + s) ^ g) << 4);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[s][i] = e4m3_pair_to_bf16(*reinterpret_cast<const uint16_t*>(from + (i % 2) * 8 * kF8Stage + i / 2 * 8));
      }
      float part[4 * NT] = {};
      attn::wgmma_fence();
#pragma unroll
      for (int s = 0; s < kSteps; ++s)
        wgmma_add(part, a[s], attn::matrix<128>(x + (block * kSteps + s) / 4 * kTileBytes, 0) + 2 * (s % 4), s > 0);
      attn::wgmma_commit();
      attn::wgmma_wait<0>();
      attn::hold(part);
      const float upper_scale = scales[block * 16 + g];
      const float lower_scale = scales[block * 16 + 8 + g];
#pragma unroll
      for (int i = 0; i < 4 * NT; ++i) acc[i / 4][i % 4] = fmaf(i % 4 < 2 ? upper_scale : lower_scale, part[i], acc[i / 4][i % 4]);
    }
  }

  __device__ static void run(const F8LinearParams& p) {
    extern __shared__ uint8_t unaligned[];
    const int lane = threadIdx.x % 32;
    const int wr = threadIdx.x / 32;
    const int first_col = blockIdx.z * 8 * NT;
    const int rows = min(8 * NT, p.o.m - first_col);
    const int row_blocks = (p.o.n + 16 * WR - 1) / (16 * WR);
    const int stage_count = (p.k + kF8Stage - 1) / kF8Stage;

    uint8_t* x_ring = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    uint8_t* w_ring = x_ring + p.stages * kXBytes + wr * p.stages * kSlotBytes;

    const auto load_weight = [&](const StageCursor& at) {
      copy_f8_slot<F8Wgmma>(p, (at.row_block * WR + wr) * 16, 0, at.stage, lane, w_ring + at.slot * kSlotBytes);
    };
    const uint16_t* x_from = p.x + int64_t{first_col + min(wr, rows - 1)} * p.k + lane * 8;
    const auto load_x = [&](const StageCursor& at) {
      uint8_t* to = x_ring + at.slot * kXBytes;
      const bool whole = at.stage * kF8Stage + lane * 8 < p.k;
      const int k0 = whole ? at.stage * kF8Stage : 0;
#pragma unroll
      for (int i = 0; i < (8 * NT + WR - 1) / WR; ++i) {
        const int n = wr + i * WR;  // rows past the end are whatever is there: their columns are not stored
        if (n < rows) copy16(to + x_chunk(n, lane), x_from + int64_t{i * WR} * p.k + k0, whole);
      }
    };
    walk_stages<NT, WR, true>(
        {0, static_cast<int>(blockIdx.y), p.o.splits, stage_count, row_blocks, p.stages}, load_weight, load_x,
        [&](int slot, float (&acc)[NT][4]) {
          multiply(w_ring + slot * kSlotBytes, shared_address(x_ring + slot * kXBytes), lane, acc);
        },
        [&](int row_block, float (&acc)[NT][4]) {
          reduce_and_store<NT, WR, 1>(acc, nullptr, wr, 0, row_block, row_blocks, first_col, p.o);
        });
  }
};

template <int NT, int WR>
__global__ void __launch_bounds__(32 * WR) f8_wgmma_kernel(F8LinearParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  F8Wgmma<NT, WR>::run(p);
#endif
}

}  // namespace

size_t f8_wgmma_shared_bytes(const TileShape& s) {
#define SLIPSTREAM_CASE(NT, WR) \
  if (s.nt == NT && s.wr == WR) return F8Wgmma<NT, WR>::shared_bytes(s.stages);
  SLIPSTREAM_F8_WGMMA_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  return 0;
}

void launch_f8_wgmma(Context& context, const F8LinearParams& p, const TileShape& s) {
#define SLIPSTREAM_CASE(NT, WR)                                                                                            \
  if (s.nt == NT && s.wr == WR)                                                                                            \
    return launch_linear(context, f8_wgmma_kernel<NT, WR>, p, linear_grid(s, p.o), 32 * WR, f8_wgmma_shared_bytes(s), "FP8 linear");
  SLIPSTREAM_F8_WGMMA_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  CHECK(false, "a block shape that is not built");
}

}  // namespace slipstream::cuda
