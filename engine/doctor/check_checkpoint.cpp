// See checks.h: what is stored.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/doctor/checks.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

constexpr int64_t kSampledRows = 64;  // of each tensor

/// What is wrong with a tensor's values, or "".
std::string fault_of(const TensorEntry& tensor) {
  if (!tensor.unserved.empty() || tensor.dtype == DType::kI32 || tensor.shape.empty()) return {};
  const int64_t cols = tensor.shape.back();
  if (cols == 0 || cols % dtype_info(tensor.dtype).block_elements != 0) return {};
  const int64_t stride = row_bytes(tensor.dtype, cols), rows = static_cast<int64_t>(tensor.bytes) / stride;
  std::vector<float> values(static_cast<size_t>(cols));
  bool all_zero = true;
  const int64_t samples = std::min(rows, kSampledRows);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t row = i * rows / samples;
    dequantize_row(tensor.dtype, tensor.data + row * stride, values.data(), cols);
    for (int64_t c = 0; c < cols; ++c) {
      const float value = values[static_cast<size_t>(c)];
      if (!std::isfinite(value)) return "row " + std::to_string(row) + ", column " + std::to_string(c) + " is " + std::to_string(value);
      all_zero = all_zero && value == 0;
    }
  }
  return all_zero && tensor.shape.size() > 1 ? "all values of " + std::to_string(samples) + " sampled rows are 0" : "";
}

std::string mebibytes(uint64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

}  // namespace

void check_checkpoint(const Checkpoint& checkpoint, const ModelConfig& c, int32_t model_layers, bool dummy, DoctorReport* report) {
  report->checks.push_back(passed(
      "checkpoint", "config",
      c.architecture + ", " + std::to_string(c.layers) + (c.layers < model_layers ? " of " + std::to_string(model_layers) : "") +
          " layers, hidden " + std::to_string(c.hidden) + ", heads " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) +
          " of " + std::to_string(c.head_dim) + ", ffn " + std::to_string(c.ffn) + ", vocabulary " + std::to_string(c.vocab) +
          (c.tied_embedding ? ", tied" : "") + ", context " + std::to_string(c.context_length) + ", rope theta " +
          std::to_string(static_cast<int64_t>(c.rope_theta)) +
          (c.rope_style == RopeStyle::kInterleaved ? " interleaved" : " half split")));
  if (dummy) return;
  std::map<std::string, int64_t> formats;
  std::string wrong;
  int64_t bad = 0;
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    ++formats[std::string(tensor.unserved.empty() ? dtype_info(tensor.dtype).name : tensor.unserved)];
    const std::string fault = fault_of(tensor);
    if (!fault.empty() && ++bad == 1) wrong = "'" + tensor.name + "': " + fault;
  }
  std::string counts;
  for (const auto& [format, count] : formats) counts += ", " + std::to_string(count) + " " + format;
  report->checks.push_back(passed("checkpoint", "tensors", std::to_string(checkpoint.tensors().size()) + " tensors, " +
                                                               mebibytes(checkpoint.total_bytes()) + counts));
  if (bad == 0)
    report->checks.push_back(passed("checkpoint", "values", "finite, no matrix of zeros (up to " + std::to_string(kSampledRows) +
                                                                " rows of each tensor)"));
  else
    report->checks.push_back(failed("checkpoint", "values", wrong + (bad > 1 ? " (and " + std::to_string(bad - 1) + " more tensors)" : "") +
                                                                "; fetch the file again"));
}

}  // namespace slipstream
