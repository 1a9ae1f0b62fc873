// The instructions that the tensor-core attention kernels are made of: asynchronous copies, matrix loads, the product and
// the exponential; and the layout of a K or V row in shared memory. Knows no span and no softmax.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace slipstream::cuda::attn {

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

/// c += a b: a [16, 16], b [16, 8] BF16, c [16, 8] FP32. Lane l holds of c rows l/4 and l/4 + 8, columns 2 (l%4) and +1.
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

__device__ __forceinline__ float exp2_fast(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/// Rows of D BF16 in shared memory as 16-byte chunks, laid out so that eight rows of one chunk column lie in different
/// banks: chunks are exchanged by the row's low bits, or rows are padded where the row is no multiple of 128 bytes.
template <int D>
struct SharedRows {
  static constexpr bool kExchanged = D % 64 == 0;
  static constexpr int kChunks = D / 8;
  static constexpr int kStride = kExchanged ? 2 * D : 2 * D + 16;  // bytes
  static_assert(kExchanged || (kStride / 16) % 2 == 1);

  __device__ __forceinline__ static uint32_t at(int row, int chunk) {
    return static_cast<uint32_t>(row * kStride + ((kExchanged ? chunk ^ (row & 7) : chunk) << 4));
  }
};

/// One lane's addresses for load_matrices over chunk pairs: at(pair) is the offset of chunk 2 * pair + high of `row`, and
/// rows 8 further are 8 strides further.
template <int D>
struct LaneRow {
  static constexpr bool kExchanged = SharedRows<D>::kExchanged;
  uint32_t base[kExchanged ? 4 : 1];

  __device__ __forceinline__ LaneRow(int row, int high) {
#pragma unroll
    for (int i = 0; i < (kExchanged ? 4 : 1); ++i) base[i] = SharedRows<D>::at(row, 2 * i + high);
  }
  __device__ __forceinline__ uint32_t at(int pair) const {
    return kExchanged ? base[pair % (kExchanged ? 4 : 1)] + static_cast<uint32_t>(pair / 4) * 128u
                      : base[0] + static_cast<uint32_t>(pair) * 32u;
  }
};

}  // namespace slipstream::cuda::attn
