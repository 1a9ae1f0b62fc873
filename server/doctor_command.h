// The `doctor` subcommand: flags in, a report out.
#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// Exit code: 0 nothing wrong was found, 1 a check failed, 2 bad flags, no such model or no such backend.
int run_doctor_command(const std::vector<std::string>& args);

}  // namespace slipstream
