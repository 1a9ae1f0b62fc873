// The tensor type ids of GGUF: which we serve, which we only know, which are gone. Knows no file.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/result.h"
#include "kernels/tensor.h"

namespace slipstream {

/// The served format of a type id. kUnsupported for a known one, with its name and the way out; kCorrupt for an id
/// that was never given or was removed. Ids: ggml.h of ggml; 97 and up: ik_llama.cpp's fork.
Result<DType> gguf_dtype(uint32_t type_id);

}  // namespace slipstream
