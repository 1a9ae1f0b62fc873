// What a chat request lets the model say, beyond its sampling: an output format, forced and strict calls, the budget of its
// thoughts, allowed tokens and bad words, as constraints of the engine. Knows no endpoint.
#pragma once

#include <memory>

#include "engine/sample/token_constraint.h"
#include "server/api/request_schema.h"
#include "server/services.h"

namespace slipstream::api {

/// Null: nothing is constrained. `inside`: the prompt has opened the thoughts. Errors are the request's.
Result<std::shared_ptr<const ConstraintSpec>> chat_constraint(const Services& services, const GenerationRequest& request, bool inside);

}  // namespace slipstream::api
