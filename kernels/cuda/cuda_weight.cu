#include "kernels/cuda/cuda_weight.h"

#include <utility>

#include "kernels/check.h"
#include "kernels/cuda/dummy.h"
#include "kernels/cuda/packed_format.cuh"

namespace slipstream::cuda {
namespace {

constexpr int64_t kAlign = 256;  // bytes: cp.async and cuBLASLt want 16, the rest is for whole DRAM bursts

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
bool is_block(DType dtype) { return packed_format(dtype).bits != 0; }

int64_t segment_bytes(const WeightSegment& segment, int64_t cols) {
  if (!is_block(segment.dtype)) return segment.rows * row_bytes(segment.dtype, cols);
  return (segment.rows + kTileRows - 1) / kTileRows * segment.tile_bytes;
}

int64_t scale_bytes(const WeightSegment& segment) {
  if (segment.dtype != DType::kF8E4M3) return 0;
  const F8Scales& s = segment.scales;
  return (segment.rows + s.group_rows - 1) / s.group_rows * s.k_blocks * int64_t{sizeof(float)};
}

/// Whether a part can go on where the segment ends.
bool joins(const WeightSegment& segment, const WeightPart& part) {
  if (segment.dtype != part.dtype) return false;
  if (is_block(part.dtype)) return segment.rows % kTileRows == 0;
  if (part.dtype != DType::kF8E4M3) return true;
  const F8Scales own = plan_f8_scales(part, segment.rows), s = segment.scales;
  return own.group_rows == s.group_rows && own.k_blocks == s.k_blocks && own.block_cols == s.block_cols && own.first == s.first;
}

std::vector<WeightSegment> plan(const WeightSpec& spec) {
  std::vector<WeightSegment> segments;
  int64_t row = 0;
  for (const WeightPart& part : spec.parts) {
    const bool block = is_block(part.dtype);
    if (!segments.empty() && joins(segments.back(), part)) {
      segments.back().rows += part.rows;
    } else {
      segments.push_back({part.dtype, row, part.rows, nullptr, block ? packed_format(part.dtype).tile_bytes(part.cols) : 0});
      if (part.dtype == DType::kF8E4M3) segments.back().scales = plan_f8_scales(part, 0);
    }
    row += part.rows;
  }
  return segments;
}

int64_t total_bytes(const std::vector<WeightSegment>& segments, int64_t cols) {
  int64_t bytes = 0;
  for (const WeightSegment& segment : segments) bytes += aligned(segment_bytes(segment, cols)) + aligned(scale_bytes(segment));
  return bytes;
}

}  // namespace

CudaWeight::CudaWeight(Context& context, WeightStream& stream, WeightSpec weight_spec) : Weight(std::move(weight_spec)) {
  segments_ = plan(spec());
  memory_ = context.allocate(static_cast<size_t>(total_bytes(segments_, cols())));
  int64_t offset = 0;
  for (WeightSegment& segment : segments_) {
    segment.data = memory_.as<std::byte>() + offset;
    offset += aligned(segment_bytes(segment, cols()));
    if (segment.dtype != DType::kF8E4M3) continue;
    segment.scales.data = reinterpret_cast<const float*>(memory_.as<std::byte>() + offset);
    offset += aligned(scale_bytes(segment));
  }
  if (context.dry()) return;  // sizes alone are wanted
  const auto scales_of = [&](const WeightSegment& segment) {
    return memory_.as<float>() + (segment.scales.data - memory_.as<float>());
  };
  size_t s = 0;
  int64_t row = 0;
  for (const WeightPart& part : spec().parts) {
    if (row >= segments_[s].first_row + segments_[s].rows) ++s;
    const int64_t bytes = row_bytes(part.dtype, cols());
    const int64_t first = row - segments_[s].first_row;
    std::byte* base = memory_.as<std::byte>() + (segments_[s].data - memory_.as<std::byte>());
    const auto pack = [&](const std::byte* raw, int64_t first_row, int64_t rows) {
      repack(context, part.dtype, raw, rows, cols(), base + (first + first_row) / kTileRows * segments_[s].tile_bytes);
    };
    if (part.dummy.fan_in > 0) {
      if (is_block(part.dtype)) {
        stream.make(part.rows, bytes, kTileRows, [&](std::byte* staging, int64_t first_row, int64_t rows) {
          fill_dummy(context, part.dtype, part.dummy, first_row, rows, cols(), staging);
          pack(staging, first_row, rows);
        });
      } else {
        fill_dummy(context, part.dtype, part.dummy, 0, part.rows, cols(), base + first * bytes);
      }
    } else if (is_block(part.dtype)) {
      stream.copy(part.data, part.row_stride_bytes, part.rows, bytes, kTileRows, pack);
    } else {
      stream.copy(part.data, part.row_stride_bytes, part.rows, bytes, base + first * bytes);
    }
    if (part.dtype == DType::kF8E4M3) fill_f8_scales(stream, part, first, segments_[s].scales, scales_of(segments_[s]));
    row += part.rows;
  }
  for (const WeightSegment& segment : segments_)
    if (segment.dtype == DType::kF8E4M3) mark_nan_codes(context, segment, cols(), scales_of(segment));
}

bool CudaWeight::is_quantised() const {
  for (const WeightSegment& segment : segments_)
    if (is_block(segment.dtype)) return true;
  return false;
}

std::string CudaWeight::description() const {
  std::string text;
  for (const WeightSegment& segment : segments_) {
    if (!text.empty()) text += " | ";
    text += std::string(dtype_info(segment.dtype).name) + (is_block(segment.dtype) ? " 16-row tiles" : " rows");
  }
  return text + ", cuda";
}

std::string unsupported_reason(const WeightSpec& spec) {
  if (std::string reason = f8_unsupported_reason(spec); !reason.empty()) return reason;
  for (const WeightPart& part : spec.parts) {
    const DTypeInfo& info = dtype_info(part.dtype);
    const std::string what = "tensor '" + part.name + "' (" + std::string(info.name) + ")";
    if (part.dtype == DType::kI32) return what + ": integers cannot be multiplied";
    if (part.cols % info.block_elements != 0)
      return what + ": " + std::to_string(part.cols) + " columns are not whole blocks of " + std::to_string(info.block_elements);
    if (row_bytes(part.dtype, part.cols) * kTileRows > static_cast<int64_t>(WeightStream::kChunkBytes))
      return what + ": " + std::to_string(part.cols) + " columns are more than the " +
             std::to_string(WeightStream::kChunkBytes / kTileRows) + " bytes that a row may have";
    if (part.rows > INT32_MAX / 2 || part.cols > INT32_MAX / 2)
      return what + ": " + std::to_string(part.rows) + " x " + std::to_string(part.cols) + " is more than 2^30 on one side";
    if (spec.role == WeightRole::kRowLinear && (spec.local_shards < 1 || part.cols % spec.local_shards != 0))
      return what + ": " + std::to_string(part.cols) + " columns cannot be cut in " + std::to_string(spec.local_shards) +
             " equal shards";
  }
  return {};
}

int64_t cuda_weight_bytes(const WeightSpec& spec) { return total_bytes(plan(spec), spec.parts.front().cols); }

std::unique_ptr<CudaWeight> make_cuda_weight(Context& context, WeightStream& stream, WeightSpec spec) {
  const std::string reason = unsupported_reason(spec);
  CHECK(reason.empty(), reason);
  return std::make_unique<CudaWeight>(context, stream, std::move(spec));
}

std::unique_ptr<CudaWeight> make_cuda_weight(Context& context, WeightSpec spec) {
  WeightStream stream(context);
  return make_cuda_weight(context, stream, std::move(spec));
}

}  // namespace slipstream::cuda
