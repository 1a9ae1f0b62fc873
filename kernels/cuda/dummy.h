// Dummy weights made on the device: the stored bytes of the dummy law (kernels/dummy_law.h), the same as on the host.
// Knows formats; no packing and no tensor name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/context.h"
#include "kernels/weight.h"

namespace slipstream::cuda {

/// Launches what writes rows [first_row, first_row + rows) of a part to `out` [rows, row_bytes(dtype, cols)].
void fill_dummy(Context& context, DType dtype, const DummyValues& values, int64_t first_row, int64_t rows, int64_t cols,
                std::byte* out);

}  // namespace slipstream::cuda
