// Environment variables to settings.
#include "config/env.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "config/value.h"

extern char** environ;

namespace slipstream::config {
namespace {

constexpr std::string_view kPrefix = "SLIPSTREAM_";

/// Variables of scripts/, not of the server.
constexpr std::string_view kScriptNames[] = {"CACHE",    "PEER_DIR", "BINARY",   "BUILD_DIR",
                                             "JOBS",     "TEST_MODEL", "PYTHON", "HOST_CORES"};

/// What Kubernetes sets for a service whose name begins with "slipstream".
bool is_service_link(std::string_view name, std::string_view value) {
  if (value.starts_with("tcp://") || value.starts_with("udp://")) return true;
  if (name.ends_with("_SERVICE_HOST") || name == "SERVICE_HOST") return true;
  if (name.find("SERVICE_PORT") != std::string_view::npos) return true;
  const size_t port = name.find("PORT_");
  return port != std::string_view::npos && port + 5 < name.size() &&
         std::isdigit(static_cast<unsigned char>(name[port + 5])) != 0;
}

/// "SPECULATIVE_CONFIG__METHOD" -> "speculative-config.method".
std::string flag_of(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '_' && i + 1 < name.size() && name[i + 1] == '_') {
      out += '.';
      ++i;
    } else {
      out += name[i] == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
    }
  }
  return out;
}

std::vector<std::string> comma_separated(const std::string& text) {
  std::vector<std::string> items;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace

Environment process_environment() {
  Environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(kPrefix)) continue;
    out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

Result<EnvironmentLayer> parse_environment(const Environment& environment) {
  EnvironmentLayer out;
  for (const auto& [variable, value] : environment) {
    if (!variable.starts_with(kPrefix)) continue;
    const std::string_view name = std::string_view(variable).substr(kPrefix.size());
    const std::string flag = flag_of(name);
    if (is_service_link(name, value)) {
      if (find_flag(flag).flag != nullptr) {
        out.warnings.push_back("env " + variable + " is ignored: " + in_quotes(value) +
                               " comes from a Kubernetes service of that name; use a flag or the YAML file");
      }
      continue;
    }
    if (std::find(std::begin(kScriptNames), std::end(kScriptNames), name) != std::end(kScriptNames)) continue;
    auto setting = name_setting(flag, variable, "env " + variable);
    if (!setting) {
      const std::string nearest = nearest_flag(flag);
      if (!nearest.empty() && edit_distance(flag, nearest) <= 2) {
        return invalid_argument("env " + variable + ": unknown setting; did you mean " + env_name(nearest) + "?", variable);
      }
      out.warnings.push_back("env " + variable + " is unknown and ignored");
      continue;
    }
    if (value.empty()) continue;  // an empty variable is an unset one, as in docker compose
    if (setting->name.flag->name == "config") {
      out.config_file = value;
      continue;
    }
    setting->values = is_list(*setting->name.flag) ? comma_separated(value) : std::vector<std::string>{value};
    out.settings.push_back(std::move(*setting));
  }
  return out;
}

}  // namespace slipstream::config
