// The command line of `serve` and `check-config` as a layer of settings. Must never know what a setting means.
//
// CLI11 parses the program's other subcommands; here it does not fit: "-tp 2", underscores, dotted keys, four engines'
// aliases and "did you mean" need each word as it was typed.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace slipstream::config {

struct CommandLine {
  Layer settings;
  std::string config_file;  // of --config; empty without
};

/// `args` are those after the subcommand. The first bare word is MODEL. A list takes all words that follow it once
/// MODEL is known, otherwise one, so that "--served-model-name a MODEL" means what it says.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args);

}  // namespace slipstream::config
