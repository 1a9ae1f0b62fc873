// What every fuzz target of a container checks of an accepted file: each tensor lies inside it, and a few of its
// elements decode.
#pragma once

#include <cstdlib>
#include <span>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "kernels/formats.h"

namespace slipstream {

inline void touch_tensors(std::span<const std::byte> file, const std::vector<TensorEntry>& tensors) {
  for (const TensorEntry& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    const auto first = static_cast<uint64_t>(tensor.data - file.data());
    if (first > file.size() || tensor.bytes > file.size() - first) std::abort();
    if (!tensor.unserved.empty() || tensor.dtype == DType::kI32) continue;
    const int32_t block = dtype_info(tensor.dtype).block_elements;
    float values[256];
    const auto last = tensor.bytes - static_cast<uint64_t>(dtype_info(tensor.dtype).block_bytes);
    dequantize_row(tensor.dtype, tensor.data, values, block);
    dequantize_row(tensor.dtype, tensor.data + last, values, block);
  }
}

}  // namespace slipstream
