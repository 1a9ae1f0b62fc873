// The layers in order of precedence, and the files that settings name.
#include "config/load.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/stat.h>

#include "config/checks.h"
#include "config/cli.h"
#include "config/env.h"
#include "config/sources.h"
#include "config/value.h"
#include "config/yaml.h"
#include "config/yaml_settings.h"

namespace slipstream {
namespace config {
namespace {

/// A small text file; `what` names it in errors.
Result<std::string> read_file(const std::string& path, const std::string& what, int64_t limit_bytes) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return io_error(what + " " + in_quotes(path) + " cannot be read: " + std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return io_error(what + " " + in_quotes(path) + " is a folder; give a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error(what + " " + in_quotes(path) + " cannot be read: " + std::strerror(errno));
  // Read up to the limit and one more, since a pipe or a growing file has no size to trust.
  std::string text(static_cast<size_t>(limit_bytes) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(text.size()) > limit_bytes) {
    return invalid_argument(what + " " + in_quotes(path) + " is over the limit of " + std::to_string(limit_bytes) + " bytes");
  }
  return text;
}

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
    SLIP_TRY(const std::string text, read_file(file, "config file", kYamlBytes));
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
