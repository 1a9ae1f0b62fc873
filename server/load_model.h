// From a config to a loaded model with its engine: checkpoint, tokenizer, template, backend, weights, cache, executor.
// Owns the arithmetic of context and cache size; knows no HTTP.
#pragma once

#include "server/serve.h"

namespace slipstream {

/// The Loader of the serve subcommand. Errors name the file, the key or the number and the next step.
Result<std::unique_ptr<Loaded>> load_served_model(const Config& config, EngineHooks hooks,
                                                  const std::function<void(std::string)>& progress);

}  // namespace slipstream
