// The environment as a layer of settings: SLIPSTREAM_<FLAG>, dashes as underscores, a dot as two. Must never know what
// a setting means.
//
// Aliases work too (SLIPSTREAM_CONTEXT_LENGTH). A list is comma-separated. Names that a Kubernetes service called
// "slipstream" injects (SLIPSTREAM_PORT=tcp://..., SLIPSTREAM_SERVICE_HOST, ...) are left alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/settings.h"

namespace slipstream::config {

using Environment = std::map<std::string, std::string>;

/// The process's own variables whose names begin with SLIPSTREAM_.
Environment process_environment();

struct EnvironmentLayer {
  Layer settings;
  std::string config_file;  // of SLIPSTREAM_CONFIG
  std::vector<std::string> warnings;
};

/// A name very near to a known one is an error; any other unknown one is a warning.
Result<EnvironmentLayer> parse_environment(const Environment& environment);

}  // namespace slipstream::config
