// One layer of settings (command line, environment or file): what was written, where, and how it lands in Config.
// Must never read a file, the environment or the command line itself.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/flag.h"
#include "engine/base/result.h"

namespace slipstream::config {

/// One setting as written.
struct Setting {
  FlagName name;
  std::string given;                // "--tp", "SLIPSTREAM_TP", "tp": for messages
  std::vector<std::string> values;  // of a switch: "true" or "false", before any negation
  std::string source;               // "--tp", "env SLIPSTREAM_TP", "config.yaml:12": for Config::source
  /// For a flag whose text is JSON: the one variable set by a dotted name ("enable_thinking"); otherwise empty.
  std::string json_key = {};

  /// Start of an error message: the source, and the key where the source is a file.
  std::string where() const { return given == source || source == "env " + given ? source : source + ": " + given; }
};

using Layer = std::vector<Setting>;

/// Finds the flag that `written` names (dashes or underscores, aliases, "no-", dotted keys); an unknown one is an
/// error that names the nearest. `message_start` as in Setting::where.
Result<Setting> name_setting(const std::string& written, const std::string& given, const std::string& source);

/// Applies one layer over `config`: aliases and negations resolved, JSON maps opened, refusals and warnings given, two
/// spellings of one setting with different values refused.
Status apply_layer(const Layer& layer, Config& config);

}  // namespace slipstream::config
