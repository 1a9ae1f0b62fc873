// The common course of the two generation endpoints after their prompts are tokenised: submit, then a whole answer or a
// stream, then the record for metrics and the access line.
#pragma once

#include <vector>

#include "server/api/call.h"
#include "server/api/request_schema.h"
#include "server/api/response_writer.h"

namespace slipstream::api {

/// The schema's context for this server: vocabulary, defaults, and the counter of unknown fields.
SchemaContext schema_context(Call& call);

/// 404 model_not_found unless `name` is served (or empty, or any name is accepted).
Status check_model(const Services& services, const std::string& name);

/// A refusal when `text_bytes` of prompt cannot fit whatever its tokens are: decided before tokenising.
Status check_prompt_bytes(const Services& services, int64_t text_bytes);

/// The request_id (or rid) of a body becomes the call's, unless the header brought one.
void take_request_id(Call& call, const Json& body);

HttpResponse run_generation(Call& call, GenerationRequest request, Endpoint endpoint,
                            std::vector<std::vector<int32_t>> prompts, std::vector<std::string> echo);

/// The error as a response, noted in the call's record.
HttpResponse refuse(Call& call, const ApiError& error);

}  // namespace slipstream::api
