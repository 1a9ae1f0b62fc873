// Products and look-ups of device weights: which kernel serves which format and number of rows.
//
//   block formats, few rows   int8 tensor cores on the packed tiles                         linear_quant.cuh
//   BF16, F16, few rows       tensor cores, weights as the 16-row operand                   linear_float.cuh
//   many rows                 cuBLASLt; block formats are first dequantised to BF16, slice by slice
//   F32, and odd columns      one warp a row                                                linear_simple.cu
// Without cuBLASLt the tensor-core kernels take any number of rows.
//
// Thread: the worker thread of its rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/linear_blas.h"
#include "kernels/ops.h"

namespace slipstream::cuda {

/// Memory of the products of one rank, and what was measured for their shapes. One product at a time uses it, which the
/// rank's single stream ensures.
class LinearScratch {
 public:
  explicit LinearScratch(Context& context);

  /// Notes a weight's shapes. Before reserve.
  void plan(const CudaWeight& weight);
  /// Allocates for products of up to max_rows rows and tunes cuBLASLt. Afterwards nothing is allocated.
  void reserve(int32_t max_rows);
  /// Bytes that reserve will take.
  size_t bytes(int32_t max_rows) const;

  BlasLt* blas() const { return blas_.get(); }
  /// Why cuBLASLt is not used; empty when it is.
  const std::string& no_blas_reason() const { return no_blas_reason_; }

  float* partials() const { return partials_.as<float>(); }
  size_t partial_floats() const { return partials_.bytes() / sizeof(float); }
  int32_t* counters() const { return counters_.as<int32_t>(); }
  void* workspace() const { return workspace_.data(); }
  uint16_t* slice() const { return slice_.as<uint16_t>(); }
  size_t slice_elements() const { return slice_.bytes() / sizeof(uint16_t); }
  uint16_t* half_rows() const { return half_rows_.as<uint16_t>(); }

 private:
  void tune(int32_t max_rows);

  Context& context_;
  std::unique_ptr<BlasLt> blas_;
  std::string no_blas_reason_;
  Buffer partials_;   // sums of blocks that share K
  Buffer counters_;   // arrivals of those blocks; zero between launches
  Buffer workspace_;  // cuBLASLt's
  Buffer slice_;      // dequantised rows
  Buffer half_rows_;  // activations as halves, for F16 weights
  /// Segment (or slice) format, rows and cols; some weight of that shape, null for slices.
  std::map<std::tuple<DType, int64_t, int64_t>, const std::byte*> shapes_;
};

/// The forms that `weight` wants its input in.
uint8_t activation_forms(const CudaWeight& weight);

/// out[r, :] = x[r, :] W^T + bias.  out [x.rows, w.rows()], bias [w.rows()] or null
void linear(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out);

/// The same by one warp an element: slow, readable, any shape. Tests compare the others with it.
void linear_simple(Context& context, const CudaWeight& w, const Activation& x, const float* bias, float* out);

/// Rows first.. of a block-format segment as BF16.  out [rows, cols]; first is a multiple of 16
void dequantise_rows(Context& context, const WeightSegment& segment, int64_t cols, int64_t first, int64_t rows, uint16_t* out);

/// For the kernel report: what serves products, and why cuBLASLt does not.
std::vector<KernelChoice> linear_report(const LinearScratch& scratch);

}  // namespace slipstream::cuda
