// Products and look-ups of device weights: which kernel serves which format and number of rows.
//
//   block formats, few rows   int8 tensor cores on the packed tiles                         linear_quant.cuh
//   BF16, F16, few rows       tensor cores, weights as the 16-row operand                   linear_float.cuh
//   F8_E4M3, few rows         the same, codes become BF16 in registers (W8A16)              linear_f8.cuh, linear_f8_sm90.cu
//   many rows                 cuBLASLt; block formats and F8_E4M3 are first dequantised to BF16, slice by slice
//   F32, and odd columns      one warp a row                                                linear_simple.cu
// Without cuBLASLt the tensor-core kernels take any number of rows.
//
// Thread: the worker thread of its rank.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/linear_limits.h"
#include "kernels/cuda/linear_scratch.h"
#include "kernels/ops.h"

namespace slipstream::cuda {

/// The forms that `weight` wants its input in.
uint8_t activation_forms(const CudaWeight& weight);

/// The factor that rows of an activation still lack: x.bf16 holds residual * norm weight, and row r is to be multiplied by
/// 1 / sqrt(sum of squares[r, :] / x.cols + eps). groups 0: none is lacking.
struct PendingNorm {
  const float* squares = nullptr;  // [rows, groups]
  int32_t groups = 0;
  float eps = 0;
};

/// out[r, :] = x[r, :] W^T + bias.  out [x.rows, w.rows()], bias [w.rows()] or null. A pending norm is taken by w that
/// linear_takes alone.
void linear(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out,
            const PendingNorm& pending = {});

/// Whether tensor-core kernels that finish their sums serve w for these few rows.
bool linear_finishes(const LinearScratch& scratch, const CudaWeight& w, const Activation& x);
/// Whether they may take a pending norm, too: F16 ones may not, since rows without their factor can leave the range of a half.
bool linear_takes(const LinearScratch& scratch, const CudaWeight& w, const Activation& x);
/// Whether fused_swiglu and fused_add_norm may be called: one such launch, which makes the forms of out.
bool swiglu_fuses(const LinearScratch& scratch, const CudaWeight& w, const Activation& x, const Activation& out);
bool add_norm_fuses(const LinearScratch& scratch, const CudaWeight& w, const Activation& x, const Activation* out);
/// out = silu(gate) * up of gate|up = x W^T + bias.  out [x.rows, w.rows() / 2]
void fused_swiglu(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const PendingNorm& pending,
                  const float* bias, const Activation& out);
/// residual += x W^T + bias; out = residual * norm and squares (kFusedSquares floats) as a pending norm, unless norm is null.
/// residual, out [x.rows, w.rows()]
PendingNorm fused_add_norm(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias,
                           float* residual, const float* norm, float eps, const Activation* out, float* squares);
inline constexpr size_t kFusedSquares = static_cast<size_t>(kFusedRows * kFusedCols / 16);

/// Whether cuBLASLt serves every segment of w for these rows, so that linear_to_bf16 and linear_add may be called.
bool blas_serves(const LinearScratch& scratch, const CudaWeight& w, const Activation& x);
/// out[r, :] = x[r, :] W^T, rounded to BF16. No segment is F16.  Row r of w.rows() at out + r * out_stride
void linear_to_bf16(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, uint16_t* out,
                    int64_t out_stride);
/// out[r, :] += x[r, :] W^T + bias: the sum is rounded once.  out [x.rows, w.rows()]
void linear_add(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out);

/// The same by one warp an element: slow, readable, any shape. Tests compare the others with it.
void linear_simple(Context& context, const CudaWeight& w, const Activation& x, const float* bias, float* out);

/// Rows first.. of a block-format segment as BF16.  out [rows, cols]; first is a multiple of 16
void dequantise_rows(Context& context, const WeightSegment& segment, int64_t cols, int64_t first, int64_t rows, uint16_t* out);

/// Whether the fast kernels serve an F8_E4M3 segment: whole chunks of 16 columns, scales that change at multiples of 128.
bool f8_fast(const WeightSegment& segment, int64_t cols);
/// Rows first.. of such a segment as BF16.  out [rows, cols]
void dequantise_f8_rows(Context& context, const WeightSegment& segment, int64_t cols, int64_t first, int64_t rows, uint16_t* out);

/// For the kernel report: what serves products, and why cuBLASLt does not.
std::vector<KernelChoice> linear_report(const LinearScratch& scratch);

}  // namespace slipstream::cuda
