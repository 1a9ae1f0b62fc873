// A folder of safetensors: model.safetensors, or the shards of model.safetensors.index.json. Owns the rules that hold
// between the index and its shards.
#pragma once

#include <memory>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/model_folder.h"

namespace slipstream {

inline constexpr std::string_view kSafetensorsFile = "model.safetensors";
inline constexpr std::string_view kSafetensorsIndex = "model.safetensors.index.json";

/// model.safetensors comes first when both exist, as in transformers. Each shard must hold exactly the tensors that
/// the index gives to it.
Result<std::unique_ptr<Checkpoint>> open_safetensors(ModelFolder folder);

}  // namespace slipstream
