// float_values: see float_values.h.
#include "engine/model/float_values.h"

#include "kernels/formats.h"

namespace slipstream {

Result<std::vector<float>> float_values(const TensorEntry& tensor, int64_t first, int64_t count) {
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16)
    return unsupported("tensor '" + tensor.name + "' is a vector in " + std::string(dtype_info(tensor.dtype).name) +
                       ", expected F32, F16 or BF16");
  CHECK(tensor.shape.size() == 1 && first >= 0 && count >= 0 && first + count <= tensor.shape[0],
        "a slice outside the vector " + tensor.name);
  std::vector<float> out(static_cast<size_t>(count));
  dequantize_row(tensor.dtype, tensor.data + row_bytes(tensor.dtype, first), out.data(), count);
  return out;
}

}  // namespace slipstream
