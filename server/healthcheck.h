// The healthcheck subcommand: asks a running server whether it is ready. No curl needed in the image.
#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// [--url http://host:port/path | --host H --port P] [--timeout SECONDS]; default http://127.0.0.1:8000/health/ready.
/// 0 when the answer is 200, otherwise 1 with one line on stderr; 2 for bad arguments.
int run_healthcheck(const std::vector<std::string>& args);

}  // namespace slipstream
