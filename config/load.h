// Command line, environment and YAML to Config. The only user of yaml-cpp.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "engine/base/result.h"

namespace slipstream {

/// `args` are those after the subcommand. Precedence: CLI > environment (SLIPSTREAM_*) > YAML (--config) > defaults.
/// Errors are one line: file and line, key, reason, and the nearest known name. Cross-field checks included.
Result<Config> load_config(const std::vector<std::string>& args);

/// A table of every effective value and where it came from (--print-config); JSON with `json`.
std::string describe_config(const Config& config, bool json);

/// Help text of `serve`.
std::string serve_help();

/// The published JSON schema of the YAML file.
std::string config_json_schema();

}  // namespace slipstream
