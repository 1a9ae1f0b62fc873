// How a tensor-core product is cut: the shape of a block, and the choice of it from rows, tiles and multiprocessors.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/tensor.h"

namespace slipstream::cuda {

struct QuantLinearParams;
struct FloatLinearParams;
struct F8LinearParams;

struct TileShape {
  int32_t nt = 1;      // groups of 8 activation rows
  int32_t wr = 1;      // 16-row weight tiles of a block
  int32_t wk = 1;      // warps that share K
  int32_t stages = 3;  // ring slots
  int32_t splits = 1;  // blocks that share K
  int32_t blocks = 0;  // of the grid's rows, each then taking several row blocks; 0: one each
  bool serial = false; // wk is 1: a warp goes through the kExactGroups groups of K itself, one after the other
  bool wgmma = false;  // F8_E4M3 on SM90, one warp group of K: linear_f8_sm90.cu
};

/// Block shapes that are built, X(nt, wr, wk).
#define SLIPSTREAM_LINEAR_SHAPES(X) X(1, 1, 8) X(1, 2, 4) X(1, 4, 2) X(2, 4, 2) X(2, 8, 1) X(4, 8, 1) X(8, 8, 1)

/// Those with wgmma, X(nt, wr).
#define SLIPSTREAM_F8_WGMMA_SHAPES(X) X(2, 4) X(2, 8) X(4, 4) X(4, 8) X(8, 4) X(8, 8)

/// Dynamic shared memory of the shape for a block format; 0 when it is not built.
size_t quant_shared_bytes(DType dtype, const TileShape& shape, int32_t m);
/// The same for BF16 and F16.
size_t float_shared_bytes(const TileShape& shape, int32_t m);
/// The same for F8_E4M3.
size_t f8_shared_bytes(const TileShape& shape, int32_t m);
size_t f8_wgmma_shared_bytes(const TileShape& shape);

/// Launches one product. dtype is a block format; the shape is built and fits the context's shared memory.
void launch_quant(Context& context, DType dtype, QuantLinearParams params, const TileShape& shape);
/// dtype is kBF16 or kF16.
void launch_float(Context& context, DType dtype, FloatLinearParams params, const TileShape& shape);
void launch_f8(Context& context, F8LinearParams params, const TileShape& shape);
void launch_f8_wgmma(Context& context, const F8LinearParams& params, const TileShape& shape);  // by launch_f8

/// The shape for m rows whose bits are the same for every m: K is summed as kExactGroups groups in order, by as many warps
/// for few rows and by each warp alone for more. The rest of a shape does not touch the order of a sum.
TileShape exact_shape(const Context& context, DType dtype, int32_t m);
/// A good shape for m rows of a [rows, cols] weight, by rule: exact_shape in a deterministic context. dtype is a block format, kBF16,
/// kF16 or kF8E4M3.
TileShape choose_shape(const Context& context, DType dtype, int32_t m, int64_t rows, int64_t cols);
/// The shapes worth measuring; never empty.
std::vector<TileShape> candidate_shapes(const Context& context, DType dtype, int32_t m, int64_t rows, int64_t cols);

}  // namespace slipstream::cuda
