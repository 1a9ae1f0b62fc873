// Rows of an embedding table, looked up by token id.
#pragma once

#include <cstdint>

#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_weight.h"

namespace slipstream::cuda {

/// out[r, :] = scale * table[token_ids[r], :].  token_ids [rows] on the device, clamped to the table; out [rows, cols].
void embed(Context& context, const CudaWeight& table, const int32_t* token_ids, int32_t rows, float scale, float* out);

}  // namespace slipstream::cuda
