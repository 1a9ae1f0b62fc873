// Sizes of the scratch that products share.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace slipstream::cuda {

inline constexpr int64_t kPartialFloats = int64_t{4} << 20;  // sums of blocks that share K: 16 MB
inline constexpr int kMaxSplits = 8;                          // blocks that share K
/// Groups of stages of K that a row-exact product sums one after the other, whatever the number of rows.
inline constexpr int kExactGroups = 8;
inline constexpr int64_t kCounters = int64_t{1} << 16;       // one for each block of a split launch
inline constexpr int64_t kSliceBytes = int64_t{64} << 20;    // BF16 rows that are dequantised before cuBLASLt
/// Rows up to which the tensor-core kernels are considered. Above 128 rows, dequantising a block format costs less than
/// the passes of its kernel: 24576 x 4096 of Q4_K at M = 64 takes 83 us, at 128 two of those against 90 and cuBLASLt's 57.
inline constexpr int32_t kFewRowsFloat = 64;
inline constexpr int32_t kFewRowsQuant = 128;
/// Rows up to which a product finishes SwiGLU, the residual and the norm itself (linear_finish.cuh), and the widest residual.
inline constexpr int32_t kFusedRows = 16;
inline constexpr int64_t kFusedCols = 16384;

/// Formats that cuBLASLt does not read: for many rows they are dequantised to BF16 first, slice by slice.
inline bool needs_slice(DType dtype) { return dtype_info(dtype).block_elements > 1 || dtype == DType::kF8E4M3; }
inline int32_t few_rows(DType dtype) { return needs_slice(dtype) ? kFewRowsQuant : kFewRowsFloat; }

}  // namespace slipstream::cuda
