// What the tensor-core linear kernels share: asynchronous copies, matrix instructions, and the sum over the warps and
// blocks that split K. Knows no weight format.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_limits.h"

namespace slipstream::cuda {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

/// 16 bytes past L1: weights are read once.
__device__ inline void copy16_once(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
/// 16 bytes through L1, zero when `valid` is false: activations are read by many blocks.
__device__ inline void copy16(void* shared, const void* global, bool valid = true) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void copy16_once_or_zero(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void copy4(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Until the oldest stage of a ring of 2..4 slots has landed: all but stages - 2 groups of copies.
__device__ inline void wait_for_stage(int stages) {
  if (stages == 2) {
    wait_copies<0>();
  } else if (stages == 3) {
    wait_copies<1>();
  } else {
    wait_copies<2>();
  }
}

/// Barrier of `threads` threads; id 1..15, 0 is __syncthreads'.
__device__ inline void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// d = a b + c: a 16 x 32 of int8 (rows), b 32 x 8.
__device__ inline void mma_s8_k32(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1,
                                  int c) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c));
}
/// The same with k = 16.
__device__ inline void mma_s8_k16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0, int c) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(b0), "r"(c));
}
/// d += a b: a 16 x 16, b 16 x 8.
__device__ inline void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ inline void mma_f16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// d += a b: a 16 x 8, b 8 x 8, both rounded towards zero to TF32 (10 bits of mantissa).
__device__ inline void mma_tf32(float (&d)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
                 "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

/// Where the sums of a launch go.
struct LinearOutput {
  const float* bias;    // [n] or null
  float* out;           // row r at out + r * out_stride: [m, n]
  int64_t out_stride;
  int32_t m, n;
  int32_t splits;       // blocks that share K (gridDim.y), at most kMaxSplits
  float* partials;      // [splits, m, n], splits > 1 only
  int32_t* counters;    // [row blocks * gridDim.z], zero before and after, splits > 1 only
  bool serial = false;  // TileShape::serial
};

/// Sums acc over the WK warps (and the splits) that share the 16 WR rows of `row_block`, and stores columns first_col...
/// Lane l holds rows g, g + 8 and columns 8 nt + 2 t, + 1 (g = l / 4, t = l % 4). `sums` has sum_bytes<NT, WR, WK>().
/// Every thread of the block calls it; `sums` may be in use by the call before.
template <int NT, int WR, int WK>
__device__ void reduce_and_store(const float (&acc)[NT][4], float* sums, int wr, int wk, int row_block, int row_blocks,
                                 int first_col, const LinearOutput& o) {
  constexpr int kRows = 16 * WR;
  constexpr int kCols = 8 * NT;
  constexpr int kThreads = 32 * WR * WK;
  const int lane = threadIdx.x % 32;
  const int64_t first_row = int64_t{row_block} * kRows;
  const int64_t split_size = int64_t{o.m} * o.n;
  const int cols = min(kCols, o.m - first_col);
  const auto store = [&](int row_in_block, int col, float sum) {
    const int64_t row = first_row + row_in_block;
    if (row >= o.n || col >= cols) return;
    if (o.splits > 1) o.partials[blockIdx.y * split_size + int64_t{first_col + col} * o.n + row] = sum;
    else o.out[(first_col + col) * o.out_stride + row] = sum + (o.bias == nullptr ? 0.0f : o.bias[row]);
  };
  if constexpr (WK == 1) {
#pragma unroll
    for (int nt = 0; nt < NT; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) store(wr * 16 + lane / 4 + 8 * (i / 2), nt * 8 + lane % 4 * 2 + i % 2, acc[nt][i]);
  } else {
    __syncthreads();
    float* mine = sums + wk * kCols * kRows + wr * 16 + lane / 4;
#pragma unroll
    for (int nt = 0; nt < NT; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) mine[(nt * 8 + lane % 4 * 2 + i % 2) * kRows + 8 * (i / 2)] = acc[nt][i];
    __syncthreads();
    for (int i = threadIdx.x; i < cols * kRows; i += kThreads) {
      float sum = sums[i];
#pragma unroll
      for (int k = 1; k < WK; ++k) sum += sums[k * kCols * kRows + i];
      store(i % kRows, i / kRows, sum);
    }
  }
  if (o.splits == 1) return;
  // The last block to arrive adds the splits in order, so that the result does not depend on the arrival.
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t* counter = o.counters + blockIdx.z * row_blocks + row_block;
    last = atomicAdd(counter, 1) == o.splits - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  constexpr int kBatch = 4;  // elements whose loads are in flight together, times the splits
  for (int first = threadIdx.x; first < cols * kRows; first += kBatch * kThreads) {
    float part[kBatch][kMaxSplits];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = first + j * kThreads;
      const int64_t row = first_row + i % kRows;
      const float* from = o.partials + int64_t{first_col + i / kRows} * o.n + row;
#pragma unroll
      for (int s = 0; s < kMaxSplits; ++s)
        part[j][s] = i < cols * kRows && row < o.n && s < o.splits ? __ldcg(from + s * split_size) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = first + j * kThreads;
      const int64_t row = first_row + i % kRows;
      if (i >= cols * kRows || row >= o.n) continue;
      float sum = part[j][0];
#pragma unroll
      for (int s = 1; s < kMaxSplits; ++s) sum += part[j][s];
      o.out[(first_col + i / kRows) * o.out_stride + row] = sum + (o.bias == nullptr ? 0.0f : o.bias[row]);
    }
  }
}
/// For the sums of the warps that share K or, in a serial launch, of the groups before.
template <int NT, int WR, int WK>
__host__ __device__ constexpr size_t sum_bytes(bool serial) {
  return WK == 1 && !serial ? 0 : sizeof(float) * WK * WR * 16 * NT * 8;
}

/// A warp's way through its stages, block after block: loads run ahead of products, across blocks.
struct StageCursor {
  int row_block, stage, slot;
  int round = 0;

  /// first: the warp's first stage; step: between its stages; end: stages in all; rounds: from first, first + 1, ….
  __device__ void advance(int first, int step, int end, int rounds, int block_step, int slots) {
    stage += step;
    if (stage >= end) {
      if (++round == rounds) round = 0, row_block += block_step;
      stage = first + round;
    }
    slot = slot + 1 == slots ? 0 : slot + 1;
  }
};

/// Where one warp stands in a launch: its stages are first, first + step, … of `stages`; its row blocks every gridDim.x-th.
struct StageWalk {
  int wk;              // which of the warp groups that share K in the block
  int first, step;     // of its stages
  int stages;          // in all
  int row_blocks;
  int slots;           // of its rings
  float* totals = nullptr;  // serial launches: sum_bytes of shared memory
};

/// The stages of a warp that takes the exact groups one after the other: group g is g, g + kExactGroups, …, as those of
/// warp g of a launch with kExactGroups warps.
__device__ inline StageWalk serial_walk(int stages, int row_blocks, int slots, float* totals) {
  return {0, 0, kExactGroups, stages, row_blocks, slots, totals};
}

struct NothingToPrepare {
  __device__ void operator()() const {}
};

/// The loop of a tensor-core product: weights and activations stream through rings of shared memory, across row blocks, while
/// the stage that arrived is multiplied. load_weight(cursor) and load_x(cursor) start copies of one stage, multiply(slot, acc)
/// adds one, finish(row_block, acc) stores a row block. Weights do not depend on the kernel before this one, so they are asked
/// for first. prepare() runs while the first stages are on their way. In a serial launch the sum of each group starts from zero
/// and the groups' sums are added in order, which is what the finish does with those of kExactGroups warps: the same bits.
/// kAsync: multiply hands the stage to the tensor cores themselves (wgmma), which read shared memory behind the threads' back.
template <int NT, int WR, bool kAsync = false, class LoadWeight, class LoadX, class Multiply, class Finish, class Prepare = NothingToPrepare>
__device__ __forceinline__ void walk_stages(const StageWalk& walk, LoadWeight&& load_weight, LoadX&& load_x, Multiply&& multiply,
                                            Finish&& finish, Prepare&& prepare = {}) {
  const int rounds = walk.totals == nullptr ? 1 : min(kExactGroups, walk.stages);
  const auto next = [&](StageCursor& at) { at.advance(walk.first, walk.step, walk.stages, rounds, gridDim.x, walk.slots); };
  const bool idle = walk.first >= walk.stages;
  const int ahead = walk.slots - 1;
  StageCursor load{static_cast<int>(blockIdx.x), walk.first, 0};
  if (!idle)
    for (int i = 0; i < ahead && load.row_block < walk.row_blocks; ++i, next(load)) load_weight(load);
  wait_for_inputs();
  release_dependents();
  load = {static_cast<int>(blockIdx.x), walk.first, 0};
  for (int i = 0; i < ahead; ++i) {
    if (!idle && load.row_block < walk.row_blocks) load_x(load), next(load);
    commit_copies();
  }
  prepare();
  load.slot = ahead;  // also where fewer stages than slots were loaded: those slots are not read
  StageCursor now{static_cast<int>(blockIdx.x), walk.first, 0};
  for (int row_block = blockIdx.x; row_block < walk.row_blocks; row_block += gridDim.x) {
    float acc[NT][4] = {};
    for (int round = 0; round < rounds; ++round) {
      for (int stage = walk.first + round; stage < walk.stages; stage += walk.step) {
        wait_for_stage(walk.slots);
        if constexpr (kAsync) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        if constexpr (WR == 1) {
          __syncwarp();
        } else {
          named_barrier(walk.wk + 1, WR * 32);
        }
        if (load.row_block < walk.row_blocks) {
          load_weight(load);
          load_x(load);
          next(load);
        }
        commit_copies();
        multiply(now.slot, acc);
        next(now);
      }
      if (walk.totals == nullptr) continue;
#pragma unroll
      for (int i = 0; i < 4 * NT; ++i) {
        float& total = walk.totals[i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)];
        float& sum = acc[i / 4][i % 4];
        if (round > 0) sum = total + sum;
        if (round + 1 == rounds) continue;
        total = sum;
        sum = 0.0f;
      }
    }
    finish(row_block, acc);
  }
  wait_copies<0>();
}

}  // namespace slipstream::cuda
