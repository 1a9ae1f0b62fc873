// model.safetensors.index.json: which shard holds which tensor. Knows neither the shards nor their headers.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace slipstream {

inline constexpr size_t kMaxSafetensorsShards = 4096;

/// Tensor name -> shard file name, from "weight_map"; everything else in the file is ignored. Duplicate names are
/// refused. File names are not judged here: ModelFolder does that when it opens them.
using WeightMap = std::map<std::string, std::string, std::less<>>;
Result<WeightMap> read_safetensors_index(std::string_view json);

}  // namespace slipstream
