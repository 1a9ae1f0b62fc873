// load_config with its sources handed in: for tests and check-config.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/env.h"
#include "engine/base/result.h"

namespace slipstream::config {

/// Whether a Config without a model is an error; a file that leaves MODEL to the command line is a good file.
enum class Need { kModel, kNothing };

/// As load_config, with the environment given.
Result<Config> load(const std::vector<std::string>& args, const Environment& environment, Need need);

}  // namespace slipstream::config
