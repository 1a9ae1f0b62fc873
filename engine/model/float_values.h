// A small stored vector (norm weight, bias, RoPE divisors) as floats. Internal to engine/model.
#pragma once

#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

/// Elements [first, first + count) of a 1-D tensor in F32, F16 or BF16.
Result<std::vector<float>> float_values(const TensorEntry& tensor, int64_t first, int64_t count);

}  // namespace slipstream
