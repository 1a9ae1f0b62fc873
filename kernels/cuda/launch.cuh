// Launches that overlap: on SM90 and newer a kernel's blocks may start while the kernel before it drains, and wait on the
// device for its results (CUDA programming guide, "Programmatic Dependent Launch").
//
// Rule: every kernel launched through launch() calls wait_for_inputs() before it reads or writes memory that any earlier kernel
// of the stream touches; index arithmetic, tensor maps and loads of weights may come before. What the kernel before wrote is not
// read by __ldg or through __restrict__: such loads have moved above the wait. Attention alone reads step arrays and old K/V
// early: between whoever writes those and attention stands a kernel that waits first and releases its dependents then.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "kernels/cuda/context.h"

namespace slipstream::cuda {

#ifdef __CUDACC__
/// Returns when the kernels before this one have ended and their writes are visible. Nothing on older architectures,
/// where launches do not overlap.
__device__ __forceinline__ void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel's blocks be placed from here on. Called once the block has no large wait of its own ahead.
__device__ __forceinline__ void release_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// kernel<<<grid, block, shared_bytes, context.stream()>>>(arguments…), overlapping where the GPU can.
template <typename... Parameters, typename... Arguments>
void launch(Context& context, const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = context.stream();
  config.attrs = &attribute;
  config.numAttrs = context.arch() >= 90 && context.facts().arch >= 90 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...), name);
}
#endif

}  // namespace slipstream::cuda
