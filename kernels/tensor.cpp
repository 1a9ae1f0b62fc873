#include "kernels/tensor.h"

#include "kernels/check.h"

namespace slipstream {

const DTypeInfo& dtype_info(DType dtype) {
  static constexpr DTypeInfo table[] = {
      {"F32", 1, 4},       {"F16", 1, 2},       {"BF16", 1, 2},      {"I32", 1, 4},
      {"Q4_0", 32, 18},    {"Q4_1", 32, 20},    {"Q5_0", 32, 22},    {"Q5_1", 32, 24},
      {"Q8_0", 32, 34},    {"Q2_K", 256, 84},   {"Q3_K", 256, 110},  {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},  {"Q6_K", 256, 210},  {"IQ4_NL", 32, 18},  {"IQ4_XS", 256, 136},
      {"MXFP4", 32, 17},   {"F8_E4M3", 1, 1},
  };
  const auto index = static_cast<size_t>(dtype);
  CHECK(index < std::size(table), "dtype out of range");
  return table[index];
}

int64_t row_bytes(DType dtype, int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  CHECK(elements % info.block_elements == 0, "a row must hold whole blocks");
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace slipstream
