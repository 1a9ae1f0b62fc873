// The `check-config` subcommand: reads settings as `serve` would, without loading a model or opening a port.
#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// `args` are those after the subcommand: a YAML file as the bare word (or --config FILE) and any flags of `serve`.
///   --print-config  also print every effective value, with --json as JSON
///   --schema        print the JSON schema of the file, and stop
///   --flags         print the flag table as JSON, and stop
/// Returns the exit code: 0 good, 2 bad; the reason is one line on stderr.
int run_check_config(const std::vector<std::string>& args);

}  // namespace slipstream
