// A YAML tree as a layer of settings: keys are the long flag names. Must never know yaml-cpp.
#pragma once

#include <string>
#include <string_view>

#include "config/settings.h"

namespace slipstream::config {

/// `name` is the file's name, for messages and Config::source.
Result<Layer> parse_yaml_settings(std::string_view text, const std::string& name);

}  // namespace slipstream::config
