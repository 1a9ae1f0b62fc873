// The `calibrate-drafter` subcommand: a target and a drafter in, what fits out.
#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// Exit code: 0 the drafter fits, 1 nothing fits, 2 bad flags, no such model, or a drafter that is not served.
int run_calibrate_command(const std::vector<std::string>& args);

}  // namespace slipstream
