// Launch of one block shape, shared by the instantiation files.
#pragma once

#include <algorithm>

#include "kernels/cuda/linear_shape.h"
#include "kernels/cuda/linear_tile.cuh"

namespace slipstream::cuda {

/// A kernel of (params) with programmatic launch where the architecture has it: its prologue, which touches only
/// weights, then overlaps the end of the kernel before.
template <class Params>
void launch_linear(Context& context, void (*kernel)(Params), const Params& params, dim3 grid, int threads, size_t shared,
                   const char* name) {
  if (shared > 47 * 1024)  // with the kernel's static bytes, past the 48 KB that need no leave
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = context.stream();
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = context.facts().arch >= 90 && context.arch() >= 90 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, params), name);
}

inline dim3 linear_grid(const TileShape& s, const LinearOutput& o) {
  const int rows = 16 * s.wr;
  const int row_blocks = (o.n + rows - 1) / rows;
  return dim3(static_cast<unsigned>(s.blocks == 0 ? row_blocks : std::min(s.blocks, row_blocks)), static_cast<unsigned>(s.splits),
              static_cast<unsigned>((o.m + 8 * s.nt - 1) / (8 * s.nt)));
}

}  // namespace slipstream::cuda
