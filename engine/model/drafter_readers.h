// The parts of read_drafter_config that its readers share. Internal to engine/model; included by .cpp files only, for the
// JSON library's weight.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/model/drafter_config.h"

namespace slipstream {

Result<DrafterConfig> read_safetensors_drafter(const Checkpoint& checkpoint);
Result<DrafterConfig> read_gguf_drafter(const Checkpoint& checkpoint);

/// A config.json in memory, checked as the file would be but for check_drafter_relations.
Result<DrafterConfig> parse_drafter_json(const nlohmann::json& document);
/// Relations between fields, after each was checked alone.
Status check_drafter_relations(const DrafterConfig& config);

/// What the metadata of a GGUF drafter state, under config.json's names: for files that miss some of it.
nlohmann::json stated_by_gguf(const Checkpoint& checkpoint);

}  // namespace slipstream
