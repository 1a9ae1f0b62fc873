// The instructions that the tensor-core attention kernels are made of: asynchronous copies, matrix loads, the product and
// the exponential; what they make of a cache's elements; and the layout of a K or V row in shared memory. Knows no span and
// no softmax.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/e4m3.cuh"
#include "kernels/tensor.h"

namespace slipstream::cuda::attn {

/// What the tensor cores multiply: BF16 and F16 as they lie in the cache, E4M3 widened to F16, which holds it exactly.
template <DType T>
struct CacheElement {
  static_assert(T == DType::kBF16 || T == DType::kF16 || T == DType::kF8E4M3);
  static constexpr int kBytes = T == DType::kF8E4M3 ? 1 : 2;
  static constexpr bool kHalf = T != DType::kBF16;
};

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// 16 bytes to shared memory; zeros, and nothing read, where bytes is 0.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&out)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(from)
               : "memory");
}

/// c += a b: a [16, 16], b [16, 8] BF16 or F16, c [16, 8] FP32. Lane l holds of c rows l/4 and l/4 + 8, columns 2 (l%4) and
/// +1.
template <bool kHalf>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kHalf)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

/// A softmax weight pair as the product takes it.
template <bool kHalf>
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
  if constexpr (!kHalf) return pack_bf16(low, high);
  uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

/// A pair of a query. Finite values past F16's range are held at its end; infinities and NaN stay what they are.
template <bool kHalf>
__device__ __forceinline__ uint32_t pack_query(float low, float high) {
  constexpr float kLargest = 65504.0f, kInfinity = INFINITY;
  const auto held = [](float x) {
    const float size = fabsf(x);
    return size > kLargest && size < kInfinity ? copysignf(kLargest, x) : x;
  };
  if constexpr (kHalf) return pack_pair<true>(held(low), held(high));
  return pack_bf16(low, high);
}

__device__ __forceinline__ float exp2_fast(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/// Rows of kRowBytes in shared memory as 16-byte chunks, laid out so that eight rows of one chunk column lie in different
/// banks: chunks are exchanged by the row's low bits, or rows are padded where neither 64 nor a multiple of 128 bytes long.
template <int BYTES>
struct SharedRows {
  static constexpr int kRowBytes = BYTES;
  static constexpr bool kExchanged = kRowBytes % 128 == 0 || kRowBytes == 64;
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kCycle = kRowBytes == 64 ? 4 : 8;  // chunks that change places
  static constexpr int kStride = kExchanged ? kRowBytes : kRowBytes + 16;  // bytes
  static_assert(kExchanged || (kStride / 16) % 2 == 1);

  __device__ __forceinline__ static uint32_t at(int row, int chunk) {
    const int exchange = kRowBytes == 64 ? row / 2 % 4 : row % 8;
    return static_cast<uint32_t>(row * kStride + ((kExchanged ? chunk ^ exchange : chunk) << 4));
  }
};

/// One lane's addresses for load_matrices over chunk pairs: at(pair) is the offset of chunk 2 * pair + high of `row`, and
/// rows 8 further are 8 strides further.
template <int kRowBytes>
struct LaneRow {
  using Rows = SharedRows<kRowBytes>;
  static constexpr int kBases = Rows::kExchanged ? Rows::kCycle / 2 : 1;
  uint32_t base[kBases];

  __device__ __forceinline__ LaneRow(int row, int high) {
#pragma unroll
    for (int i = 0; i < kBases; ++i) base[i] = Rows::at(row, 2 * i + high);
  }
  __device__ __forceinline__ uint32_t at(int pair) const {
    return base[pair % kBases] + static_cast<uint32_t>(pair / kBases) * static_cast<uint32_t>(32 * kBases);
  }
};

}  // namespace slipstream::cuda::attn
