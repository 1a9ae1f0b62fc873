// Where a Hugging Face hub id lies on this machine. Owns the layout of the hub cache; fetches nothing.
// Layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace slipstream {

/// HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else HOME/.cache/huggingface/hub.
/// Empty when not even HOME is set. `environment` returns null for an unset name.
std::string hub_cache_folder(const char* (*environment)(const char* name));

/// True for "org/name" as the hub allows it.
bool is_hub_id(std::string_view text);

/// The snapshot folder that refs/main names, or the only snapshot there is. kNotFound with the download command.
Result<std::string> find_in_hub_cache(const std::string& cache_folder, const std::string& hub_id);

}  // namespace slipstream
