// From a config to a loaded model with its engine: checkpoint, tokenizer, template, backend, weights, cache, executor.
// Owns the arithmetic of context and cache size; knows no HTTP.
#pragma once

#include "engine/run/step_executor.h"
#include "kernels/ops.h"
#include "server/serve.h"

namespace slipstream {

/// The Loader of the serve subcommand. Errors name the file, the key or the number and the next step.
Result<std::unique_ptr<Loaded>> load_served_model(const Config& config, EngineHooks hooks,
                                                  const std::function<void(std::string)>& progress);

/// Puts something around a rank's executor, whose backend is `ops`: the seam where tests let a device fail.
using ExecutorDecorator = std::function<std::unique_ptr<StepExecutor>(std::unique_ptr<StepExecutor>, Ops& ops)>;
/// load_served_model with a decorated executor.
Result<std::unique_ptr<Loaded>> load_decorated_model(const Config& config, EngineHooks hooks,
                                                     const std::function<void(std::string)>& progress,
                                                     const ExecutorDecorator& decorate);

}  // namespace slipstream
