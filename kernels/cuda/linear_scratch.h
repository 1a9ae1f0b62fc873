// What the products of one rank share: scratch memory, cuBLASLt, and for each shape the kernel that was fastest here.
// Owns sizes and measurements; linear.h dispatches.
//
// Thread: the worker thread of its rank. One product at a time uses the memory, which the rank's single stream ensures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/linear_blas.h"
#include "kernels/cuda/linear_limits.h"
#include "kernels/cuda/linear_shape.h"

namespace slipstream::cuda {

/// Rows of one segment that are dequantised at once for cuBLASLt: a slice of kSliceBytes in BF16.
int64_t slice_rows(int64_t cols);

/// What serves a segment for a number of rows.
struct LinearChoice {
  bool blas = false;
  TileShape shape;  // otherwise
  TileShape fused;  // of BF16, F16 and FP8 weights: the shape with several warps sharing K, which can finish more; wk 1: none
};

class LinearScratch {
 public:
  explicit LinearScratch(Context& context);

  /// Notes a weight's shapes. Before reserve.
  void plan(const CudaWeight& weight);
  /// Allocates for products of up to max_rows rows, then measures each shape (well under a second for a dense model;
  /// nothing in a deterministic context).
  /// Afterwards nothing is allocated.
  void reserve(int32_t max_rows);
  /// Bytes that the scratch takes after reserve(max_rows).
  size_t bytes(int32_t max_rows) const;

  /// Measured if reserve has seen the shape, otherwise by rule; always by rule in a deterministic context.
  LinearChoice choose(DType dtype, int64_t rows, int64_t cols, int32_t m) const;

  /// Whether products of this many rows never read the int8 form of a block format's input.
  bool leaves_int8(int32_t m) const {
    return m > kFewRowsQuant && workspace_.data() != nullptr && slice_.data() != nullptr;
  }
  bool deterministic() const { return context_.deterministic(); }
  BlasLt* blas() const { return blas_.get(); }
  /// Why cuBLASLt is not used; empty when it is.
  const std::string& no_blas_reason() const { return no_blas_reason_; }

  float* partials() const { return partials_.as<float>(); }       // [kPartialFloats]
  int32_t* counters() const { return counters_.as<int32_t>(); }   // [kCounters]
  void* workspace() const { return workspace_.data(); }           // cuBLASLt's
  uint16_t* slice() const { return slice_.as<uint16_t>(); }       // null when no product needs it
  uint16_t* half_rows() const { return half_rows_.as<uint16_t>(); }

 private:
  using Shape = std::tuple<DType, int64_t, int64_t>;  // segment format, rows, cols

  struct Planned {
    WeightSegment segment;  // some segment of the shape
    bool adds = false;      // its rows are added to the residual
  };

  size_t slice_bytes(int32_t max_rows) const;
  size_t half_row_bytes(int32_t max_rows) const;
  void tune(int32_t max_rows);
  void tune_few(const Shape& shape, const WeightSegment& segment, int32_t m, void* rows, float* out, Buffer& flush);
  void tune_many(const Shape& shape, const Planned& planned, int32_t m, const void* rows, void* out, Buffer& flush);

  Context& context_;
  std::string no_blas_reason_;
  std::unique_ptr<BlasLt> blas_;
  Buffer partials_;   // sums of blocks that share K
  Buffer counters_;   // arrivals of those blocks; zero between launches
  Buffer workspace_;
  Buffer slice_;      // dequantised rows
  Buffer half_rows_;  // activations as halves, for F16 weights
  std::map<Shape, Planned> shapes_;
  std::map<std::pair<Shape, int32_t>, LinearChoice> choices_;  // by shape and row_bucket
};

}  // namespace slipstream::cuda
