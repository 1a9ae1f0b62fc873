// A matrix in device memory. Block formats are repacked (packed_format.cuh), plain formats keep their rows.
// Owns which rows lie where; knows no product.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/weight_stream.h"
#include "kernels/weight.h"

namespace slipstream::cuda {

/// Consecutive output rows of one format: one launch. Neighbouring parts of equal format share a segment.
struct WeightSegment {
  DType dtype = DType::kF32;
  int64_t first_row = 0;
  int64_t rows = 0;
  const std::byte* data = nullptr;  // block formats: [ceil(rows / 16)] tiles; plain: [rows, cols]
  int64_t tile_bytes = 0;           // block formats only
};

class CudaWeight final : public Weight {
 public:
  /// Returns when the last transfer has been queued; the mapped file may be unmapped then.
  CudaWeight(Context& context, WeightStream& stream, WeightSpec spec);

  const std::vector<WeightSegment>& segments() const { return segments_; }
  /// Any segment of a block format.
  bool is_quantised() const;
  int64_t resident_bytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  std::string description() const override;

 private:
  Buffer memory_;
  std::vector<WeightSegment> segments_;
};

/// Empty when the spec can be served, otherwise one line that names the tensor and the reason.
std::string unsupported_reason(const WeightSpec& spec);
std::unique_ptr<CudaWeight> make_cuda_weight(Context& context, WeightStream& stream, WeightSpec spec);
/// The same for one weight alone: a WeightStream of its own costs some 20 ms, so loaders of many keep one.
std::unique_ptr<CudaWeight> make_cuda_weight(Context& context, WeightSpec spec);
/// What the weight will keep on the device; for the memory plan, before anything is loaded.
int64_t cuda_weight_bytes(const WeightSpec& spec);

/// Launches the repacking of `rows` stored rows at `raw` [rows, row_bytes(dtype, cols)] into tiles. Rows up to the next
/// multiple of 16 become zero.
void repack(Context& context, DType dtype, const std::byte* raw, int64_t rows, int64_t cols, std::byte* tiles);

}  // namespace slipstream::cuda
