// Hopper's own instructions as the SM90 attention kernel uses them: transaction barriers, tensor-map copies, warpgroup
// products and register reallocation. Compiles to nothing useful below sm_90a; only that kernel includes it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace slipstream::cuda::attn {

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Returns once the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:}" ::"r"(barrier), "r"(parity) : "memory");
}
/// One box of a two-dimensional tensor map; elements outside the tensor arrive as zeros and count as bytes.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, int32_t column, int32_t row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Makes ordinary stores to shared memory visible to the tensor cores and the copy engine; before a barrier.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int kThreads>
__device__ __forceinline__ void named_barrier(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ __forceinline__ void named_arrive(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of accumulators across a wait.
template <int N>
__device__ __forceinline__ void hold(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// Matrix descriptor of swizzled rows: kRowBytes 128 or 64. `leading` is the distance of column groups (MN-major only).
template <int kRowBytes>
__device__ __forceinline__ uint64_t matrix(uint32_t address, uint32_t leading) {
  constexpr uint64_t kLayout = kRowBytes == 128 ? 1 : 2;
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | static_cast<uint64_t>((leading & 0x3ffffu) >> 4) << 16 |
         static_cast<uint64_t>((8 * kRowBytes) >> 4) << 32 | kLayout << 62;
}

// d [64, N] (+)= a [64, 16] b [16, N], BF16 or F16 to FP32. wgmma_shared: a and b K-major in shared memory, d replaced where add is
// 0. wgmma_registers: a in registers (the accumulator's layout, packed), b MN-major in shared memory, always added.
#define SLIP_ACC8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])

#define SLIP_PRODUCT(TYPE) \
  asm volatile( \
      "{.reg .pred p; setp.ne.b32 p, %34, 0; " \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "%32, %33, p, 1, 1, 0, 0;}" \
      : SLIP_ACC8(d, 0), SLIP_ACC8(d, 8), SLIP_ACC8(d, 16), SLIP_ACC8(d, 24) \
      : "l"(a), "l"(b), "r"(add))
template <bool kHalf>
__device__ __forceinline__ void wgmma_shared(float (&d)[32], uint64_t a, uint64_t b, int add) {
  if constexpr (kHalf)
    SLIP_PRODUCT("f16");
  else
    SLIP_PRODUCT("bf16");
}
#undef SLIP_PRODUCT

#define SLIP_PRODUCT(TYPE) \
  asm volatile( \
      "{.reg .pred p; setp.eq.b32 p, 0, 0; " \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;}" \
      : SLIP_ACC8(d, 0), SLIP_ACC8(d, 8), SLIP_ACC8(d, 16), SLIP_ACC8(d, 24) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <bool kHalf>
__device__ __forceinline__ void wgmma_registers(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kHalf)
    SLIP_PRODUCT("f16");
  else
    SLIP_PRODUCT("bf16");
}
#undef SLIP_PRODUCT

#define SLIP_PRODUCT(TYPE) \
  asm volatile( \
      "{.reg .pred p; setp.eq.b32 p, 0, 0; " \
      "wgmma.mma_async.sync.aligned.m64n96k16.f32." TYPE "." TYPE " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, " \
      "{%48, %49, %50, %51}, %52, p, 1, 1, 1;}" \
      : SLIP_ACC8(d, 0), SLIP_ACC8(d, 8), SLIP_ACC8(d, 16), SLIP_ACC8(d, 24), \
        SLIP_ACC8(d, 32), SLIP_ACC8(d, 40) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <bool kHalf>
__device__ __forceinline__ void wgmma_registers(float (&d)[48], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kHalf)
    SLIP_PRODUCT("f16");
  else
    SLIP_PRODUCT("bf16");
}
#undef SLIP_PRODUCT

#define SLIP_PRODUCT(TYPE) \
  asm volatile( \
      "{.reg .pred p; setp.ne.b32 p, %66, 0; " \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "%64, %65, p, 1, 1, 0, 0;}" \
      : SLIP_ACC8(d, 0), SLIP_ACC8(d, 8), SLIP_ACC8(d, 16), SLIP_ACC8(d, 24), \
        SLIP_ACC8(d, 32), SLIP_ACC8(d, 40), SLIP_ACC8(d, 48), SLIP_ACC8(d, 56) \
      : "l"(a), "l"(b), "r"(add))
template <bool kHalf>
__device__ __forceinline__ void wgmma_shared(float (&d)[64], uint64_t a, uint64_t b, int add) {
  if constexpr (kHalf)
    SLIP_PRODUCT("f16");
  else
    SLIP_PRODUCT("bf16");
}
#undef SLIP_PRODUCT

#define SLIP_PRODUCT(TYPE) \
  asm volatile( \
      "{.reg .pred p; setp.eq.b32 p, 0, 0; " \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;}" \
      : SLIP_ACC8(d, 0), SLIP_ACC8(d, 8), SLIP_ACC8(d, 16), SLIP_ACC8(d, 24), \
        SLIP_ACC8(d, 32), SLIP_ACC8(d, 40), SLIP_ACC8(d, 48), SLIP_ACC8(d, 56) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <bool kHalf>
__device__ __forceinline__ void wgmma_registers(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kHalf)
    SLIP_PRODUCT("f16");
  else
    SLIP_PRODUCT("bf16");
}
#undef SLIP_PRODUCT

#define SLIP_PRODUCT(TYPE) \
  asm volatile( \
      "{.reg .pred p; setp.eq.b32 p, 0, 0; " \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63," \
      " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79," \
      " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95," \
      " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111," \
      " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, " \
      "{%128, %129, %130, %131}, %132, p, 1, 1, 1;}" \
      : SLIP_ACC8(d, 0), SLIP_ACC8(d, 8), SLIP_ACC8(d, 16), SLIP_ACC8(d, 24), \
        SLIP_ACC8(d, 32), SLIP_ACC8(d, 40), SLIP_ACC8(d, 48), SLIP_ACC8(d, 56), \
        SLIP_ACC8(d, 64), SLIP_ACC8(d, 72), SLIP_ACC8(d, 80), SLIP_ACC8(d, 88), \
        SLIP_ACC8(d, 96), SLIP_ACC8(d, 104), SLIP_ACC8(d, 112), SLIP_ACC8(d, 120) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <bool kHalf>
__device__ __forceinline__ void wgmma_registers(float (&d)[128], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kHalf)
    SLIP_PRODUCT("f16");
  else
    SLIP_PRODUCT("bf16");
}
#undef SLIP_PRODUCT

#undef SLIP_ACC8

}  // namespace slipstream::cuda::attn
