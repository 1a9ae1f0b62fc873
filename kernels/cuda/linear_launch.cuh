// Launch of one block shape, shared by the instantiation files.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_shape.h"
#include "kernels/cuda/linear_tile.cuh"

namespace slipstream::cuda {

/// Overlaps the kernel before it: what a product does before wait_for_inputs touches only weights.
template <class Params>
void launch_linear(Context& context, void (*kernel)(Params), const Params& params, dim3 grid, int threads, size_t shared,
                   const char* name) {
  if (shared > 47 * 1024)  // with the kernel's static bytes, past the 48 KB that need no leave
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name);
  launch(context, name, kernel, grid, dim3(static_cast<unsigned>(threads)), shared, params);
}

inline dim3 linear_grid(const TileShape& s, const LinearOutput& o) {
  const int rows = 16 * s.wr;
  const int row_blocks = (o.n + rows - 1) / rows;
  return dim3(static_cast<unsigned>(s.blocks == 0 ? row_blocks : std::min(s.blocks, row_blocks)),
              static_cast<unsigned>(s.splits), static_cast<unsigned>((o.m + 8 * s.nt - 1) / (8 * s.nt)));
}

}  // namespace slipstream::cuda
