// The serve subcommand's course: bind, load, serve, drain, exit code. Owns signals and the order of shutdown; the model
// comes from a loader, so that tests put another engine behind the same edge.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "server/services.h"

namespace slipstream {

/// Exit codes of design.md 12.
enum ExitCode : int { kExitDrained = 0, kExitForced = 1, kExitBadConfig = 2, kExitCannotBind = 3 };

/// A loaded model with the engine over it, not yet started. `keep` lives as long as the engine.
struct Loaded {
  Services services;                       // services.engine is set by run_server
  std::vector<std::shared_ptr<void>> keep;
  std::unique_ptr<Engine> engine;          // destroyed first
};

using Loader = std::function<Result<std::unique_ptr<Loaded>>(const Config& config, EngineHooks hooks,
                                                             const std::function<void(std::string)>& progress)>;

/// Runs until a signal or a fatal error; returns the process's exit code.
int run_server(const Config& config, const Loader& loader);

/// `args` after "serve".
int run_serve(const std::vector<std::string>& args);

}  // namespace slipstream
