// The safetensors header: a length, a JSON object of tensors, data without a gap. Owns every check that one file
// allows; never touches tensor data and knows no path or index.
// Format: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // as in the reference reader
inline constexpr size_t kMaxSafetensorsNameBytes = 255;
inline constexpr size_t kMaxSafetensorsRank = 8;
/// Of one string, __metadata__ values included.
inline constexpr size_t kMaxSafetensorsStringBytes = 1 << 20;

/// The tensors in the header's order; data points into `file`. The format allows scalars and empty tensors, so they
/// are listed too. Walks the header once without keeping anything, then again to build the list. Errors do not name
/// the file; the caller adds it.
Result<std::vector<TensorEntry>> read_safetensors_header(std::span<const std::byte> file);

}  // namespace slipstream
