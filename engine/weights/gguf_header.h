// The GGUF header (versions 2 and 3, little-endian): metadata and tensor table, from a bounded span of bytes.
// Owns every check that one file allows; never touches tensor data and knows no path or split rule.
// Format: docs/gguf.md of ggml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

using Metadata = std::map<std::string, MetaValue, std::less<>>;

inline constexpr uint64_t kMaxGgufKeys = 65'536;
inline constexpr uint64_t kMaxGgufKeyBytes = 255;
inline constexpr uint64_t kMaxGgufTensorNameBytes = 64;
inline constexpr uint64_t kMaxGgufStringBytes = uint64_t{1} << 30;
/// Of all arrays of a file together: 50 times the largest known vocabulary with its merges. A C++ string takes four
/// times its bytes in the file, so this bounds what a crafted file can make us allocate.
inline constexpr uint64_t kMaxGgufArrayElements = uint64_t{1} << 24;
inline constexpr uint64_t kMaxGgufAlignment = 65'536;

struct GgufHeader {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorEntry> tensors;  // in the file's order; data points into the span
};

/// Walks the whole header once without keeping anything, then again to build it: a damaged file costs no memory.
/// Errors do not name the file; the caller adds it.
Result<GgufHeader> read_gguf_header(std::span<const std::byte> file);

}  // namespace slipstream
