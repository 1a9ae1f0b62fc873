// Checks of a whole Config: what one flag's bounds cannot say. Must never read a file or the environment.
#pragma once

#include "config/config.h"
#include "engine/base/result.h"

namespace slipstream::config {

/// The first contradiction as an error that names both settings and the way out; adds warnings for what is legal but
/// rarely meant.
Status check_config(Config& config);

}  // namespace slipstream::config
