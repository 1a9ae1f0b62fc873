// See fp8_scheme.h.
#include "engine/model/fp8_scheme.h"

namespace slipstream {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<int64_t> Fp8Scheme::scale_shape(int64_t rows, int64_t cols) const {
  switch (scales) {
    case Scales::kNone: break;
    case Scales::kTensor: return {1};
    case Scales::kChannel: return {rows, 1};
    case Scales::kBlock: return {(rows + block_rows - 1) / block_rows, (cols + block_cols - 1) / block_cols};
  }
  return {};
}

std::string sibling_name(std::string_view weight_name, std::string_view suffix) {
  return std::string(weight_name.substr(0, weight_name.rfind('.') + 1)) + std::string(suffix);
}

Result<WeightScales> weight_scales(const Fp8Scheme& scheme, const TensorEntry& codes, const TensorEntry& scales) {
  using Scales = Fp8Scheme::Scales;
  CHECK(scheme.scales != Scales::kNone && codes.shape.size() == 2, "scales of a matrix under a scheme");
  if (scales.dtype != DType::kF32 && scales.dtype != DType::kBF16 && scales.dtype != DType::kF16)
    return unsupported("tensor '" + scales.name + "' holds scales in " + std::string(dtype_info(scales.dtype).name) +
                       ", expected F32, BF16 or F16");
  const int64_t rows = codes.shape[0];
  const std::vector<int64_t> wanted = scheme.scale_shape(rows, codes.shape[1]);
  const bool fits = scales.shape == wanted ||
                    (scheme.scales == Scales::kChannel && scales.shape == std::vector<int64_t>{rows}) ||
                    (scheme.scales == Scales::kTensor && (scales.shape.empty() || scales.shape == std::vector<int64_t>{1, 1}));
  if (!fits)
    return corrupt("tensor '" + scales.name + "' has shape " + shape_text(scales.shape) + ", the scales of '" + codes.name +
                   "' " + shape_text(codes.shape) + " are " + shape_text(wanted) + " by config.json's quantization_config");
  WeightScales out;
  out.data = scales.data;
  out.dtype = scales.dtype;
  if (scheme.scales == Scales::kTensor) out.block_rows = WeightScales::kWholeSide;
  if (scheme.scales == Scales::kBlock) {
    out.stride = wanted[1];
    out.block_rows = scheme.block_rows;
    out.block_cols = scheme.block_cols;
  }
  return out;
}

}  // namespace slipstream
