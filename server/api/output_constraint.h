// What a request says about the tokens of its output, as the engine's constraints: a format (compiled, within bounds, on the request's
// own thread), allowed tokens, bad words. Knows no chat.
#pragma once

#include <memory>
#include <vector>

#include "engine/sample/token_constraint.h"
#include "server/api/request_schema.h"
#include "server/services.h"

namespace slipstream::api {

/// Those of allowed_token_ids and bad_words, appended to `parts`.
Status add_token_rules(const Services& services, const GenerationRequest& request,
                       std::vector<std::shared_ptr<const ConstraintSpec>>* parts);

/// All rules of a request without a chat, into `request->constraint`.
Status constrain_completion(const Services& services, GenerationRequest* request);

}  // namespace slipstream::api
