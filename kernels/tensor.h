// Element formats and the non-owning tensor view. Knows bytes and shapes; no request, JSON or model name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slipstream {

/// Stored element formats. Block formats are those of GGUF; the layout of each is in kernels/formats.h. kF8E4M3 are bare
/// codes: a weight's scales stand beside them (kernels/weight.h).
enum class DType : uint8_t {
  kF32, kF16, kBF16, kI32,
  kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0,
  kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K,
  kIQ4_NL, kIQ4_XS, kMXFP4,
  kF8E4M3,
};

struct DTypeInfo {
  std::string_view name;   // "Q4_1"
  int32_t block_elements;  // 1 for plain formats
  int32_t block_bytes;
};
const DTypeInfo& dtype_info(DType dtype);

/// Bytes of one row of `elements`; elements must be a multiple of the block.
int64_t row_bytes(DType dtype, int64_t elements);

/// A contiguous row-major view. The last dimension is the fastest. data may be a device pointer.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int32_t rank = 0;
  std::array<int64_t, 4> shape{};  // [0..rank)
};

}  // namespace slipstream
