// Kernels that do what no kernel may: the real faults behind faulty_executor.h.
#include "kernels/cuda/cuda_ops.h"
#include "tests/http/faulty_executor.h"

namespace slipstream::test {
namespace {

__global__ void illegal_read_kernel(const int* nowhere, int* out) { *out = *nowhere; }
__global__ void trap_kernel() { asm volatile("trap;"); }
/// Long enough that a watchdog must end the step; bounded, so that a test that fails leaves the GPU to others.
__global__ void endless_kernel() {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    __nanosleep(1000000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < 60ull * 1000000000ull);
}

}  // namespace

bool launch_device_fault(Ops& ops, const std::string& point) {
  if (ops.name() != "cuda") return false;
  cudaStream_t stream = static_cast<cuda::CudaOps&>(ops).context().stream();
  if (point == "illegal_read")
    illegal_read_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<const int*>(uintptr_t{0x10}), reinterpret_cast<int*>(uintptr_t{0x20}));
  else if (point == "trap")
    trap_kernel<<<1, 1, 0, stream>>>();
  else
    endless_kernel<<<1, 1, 0, stream>>>();
  cuda::check(cudaGetLastError(), "launch of a fault");
  return true;
}

}  // namespace slipstream::test
