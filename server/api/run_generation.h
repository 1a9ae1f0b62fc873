// The common course of the generation endpoints after their prompts are tokenised: submit, then a whole answer or a
// stream, then the record for metrics and the access line.
#pragma once

#include <optional>
#include <vector>

#include "server/api/call.h"
#include "server/api/openai_format.h"
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

/// The head of an answer to `request`; a new id.
AnswerHead answer_head(const Services& services, const GenerationRequest& request, Endpoint endpoint);

/// Scores the prompts where the answer shows their log-probabilities, into the head.
std::optional<ApiError> score(Call& call, const GenerationRequest& request, const std::vector<std::vector<int32_t>>& prompts,
                              AnswerHead* head);

/// `id` is the answer's, and what the log calls the request.
HttpResponse run_generation(Call& call, GenerationRequest request, const std::string& id,
                            std::shared_ptr<AnswerFormat> format, std::vector<std::vector<int32_t>> prompts);

/// The error as a response, noted in the call's record; in the shape of the path's API, or of `format`.
HttpResponse refuse(Call& call, const ApiError& error, AnswerFormat* format = nullptr);

}  // namespace slipstream::api
