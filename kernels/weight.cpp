#include "kernels/weight.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/formats.h"

namespace slipstream {

float WeightScales::at(int64_t row, int64_t col) const {
  const int64_t index = (first_row + row) / block_rows * stride + (first_col + col) / block_cols;
  float scale;
  dequantize_row(dtype, data + index * dtype_info(dtype).block_bytes, &scale, 1);
  return scale;
}

void dequantize_part_row(const WeightPart& part, int64_t row, float* out) {
  dequantize_row(part.dtype, part.data + row * part.row_stride_bytes, out, part.cols);
  if (part.dtype != DType::kF8E4M3) return;
  const WeightScales& s = part.scales;
  for (int64_t c = 0; c < part.cols;) {
    const int64_t end = std::min(part.cols, c + s.block_cols - (s.first_col + c) % s.block_cols);
    const float scale = s.at(row, c);
    for (; c < end; ++c) out[c] *= scale;
  }
}

std::string f8_unsupported_reason(const WeightSpec& spec) {
  for (const WeightPart& part : spec.parts) {
    if (part.dtype != DType::kF8E4M3) continue;
    const std::string what = "tensor '" + part.name + "' (F8_E4M3)";
    if (spec.role == WeightRole::kEmbedding || spec.role == WeightRole::kEmbeddingHead)
      return what + ": an embedding is served in F32, F16, BF16 or a block format, not in FP8";
    if (part.scales.data == nullptr) return what + ": codes without scales";
  }
  return {};
}

Weight::Weight(WeightSpec spec) : spec_(std::move(spec)) {
  CHECK(!spec_.parts.empty(), "a weight needs at least one part");
  cols_ = spec_.parts.front().cols;
  for (const WeightPart& part : spec_.parts) {
    CHECK(part.cols == cols_, "parts of one weight must have equal columns");
    CHECK(part.rows > 0 && part.cols > 0 && (part.data != nullptr || part.dummy.fan_in > 0), "a weight part is empty");
    rows_ += part.rows;
  }
}

}  // namespace slipstream
