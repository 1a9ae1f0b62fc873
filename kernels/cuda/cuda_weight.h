// A matrix in device memory. Block formats are repacked (packed_format.cuh), plain formats and FP8 codes keep their rows.
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

/// The scales of an F8_E4M3 segment: element (r, k) has data[r / group_rows * k_blocks + (first + k) / block_cols].
struct F8Scales {
  const float* data = nullptr;  // [ceil(rows / group_rows), k_blocks]
  int32_t group_rows = 1;       // 16 where no tile of 16 rows has two scales side by side, otherwise 1
  int32_t k_blocks = 1;
  int32_t block_cols = 0;       // elements of K that share a scale
  int32_t first = 0;            // of the first of those, how many lie before the segment's first column
};

/// Consecutive output rows of one format: one launch. Neighbouring parts of equal format share a segment.
struct WeightSegment {
  DType dtype = DType::kF32;
  int64_t first_row = 0;
  int64_t rows = 0;
  const std::byte* data = nullptr;  // block formats: [ceil(rows / 16)] tiles; plain: [rows, cols]
  int64_t tile_bytes = 0;           // block formats only
  F8Scales scales = {};             // F8_E4M3 only; data is [rows, cols] codes
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

/// How the scales of an F8_E4M3 part that starts at a row of its segment will lie; data is null.
F8Scales plan_f8_scales(const WeightPart& part, int64_t segment_row);
/// Writes the part's scales into its segment's.
void fill_f8_scales(WeightStream& stream, const WeightPart& part, int64_t segment_row, const F8Scales& scales, float* out);
/// Launches the search for NaN codes, after all scales and codes: each turns the scale of its place into NaN.
void mark_nan_codes(Context& context, const WeightSegment& segment, int64_t cols, float* scales);

/// Launches the repacking of `rows` stored rows at `raw` [rows, row_bytes(dtype, cols)] into tiles. Rows up to the next
/// multiple of 16 become zero.
void repack(Context& context, DType dtype, const std::byte* raw, int64_t rows, int64_t cols, std::byte* tiles);

}  // namespace slipstream::cuda
