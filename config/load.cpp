// The layers in order of precedence, and the files that settings name.
#include "config/load.h"

#include "config/checks.h"
#include "config/cli.h"
#include "config/env.h"
#include "config/sources.h"
#include "config/value.h"
#include "config/yaml.h"
#include "config/yaml_settings.h"
#include "engine/base/text_file.h"

namespace slipstream {
namespace config {
namespace {

void record_defaults(Config& config) {
  for (const Flag& flag : flags()) {
    if (flag.treatment == Treatment::kSet) config.source[std::string(flag.name)] = "default";
  }
}

}  // namespace

Result<Config> load(const std::vector<std::string>& args, const Environment& environment, Need need) {
  SLIP_TRY(const CommandLine line, parse_command_line(args));
  SLIP_TRY(const EnvironmentLayer variables, parse_environment(environment));
  Config config;
  record_defaults(config);
  const std::string& file = line.config_file.empty() ? variables.config_file : line.config_file;
  if (!file.empty()) {
    SLIP_TRY(const std::string text, read_text_file(file, "config file", kYamlBytes));
    SLIP_TRY(const Layer layer, parse_yaml_settings(text, file));
    SLIP_RETURN_IF_ERROR(apply_layer(layer, config));
  }
  config.warnings.insert(config.warnings.end(), variables.warnings.begin(), variables.warnings.end());
  SLIP_RETURN_IF_ERROR(apply_layer(variables.settings, config));
  SLIP_RETURN_IF_ERROR(apply_layer(line.settings, config));
  if (need == Need::kModel && config.engine.model.empty()) {
    return invalid_argument("no model: give a folder, a .gguf file or a hub id, as in: slipstream serve MODEL", "model");
  }
  SLIP_RETURN_IF_ERROR(check_config(config));
  return config;
}

}  // namespace config

Result<Config> load_config(const std::vector<std::string>& args) {
  return config::load(args, config::process_environment(), config::Need::kModel);
}

}  // namespace slipstream
