// A GGUF model: one file, or a first file and its splits. Owns the rules that hold between the files.
#pragma once

#include <memory>
#include <string>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

inline constexpr uint64_t kMaxGgufSplits = 9'999;

/// `path` is the whole model, or base-00001-of-000NN.gguf with the others beside it. The first file carries all
/// metadata; of the others only the split.* keys are read.
Result<std::unique_ptr<Checkpoint>> open_gguf(const std::string& path);

}  // namespace slipstream
