// The fields of a request that say what the output may look like: response_format, structured_outputs and the other engines' names
// for the same; allowed_token_ids and bad_words. Reads and checks; compiles nothing.
#pragma once

#include <optional>

#include "engine/grammar/format.h"
#include "server/api/request_schema.h"

namespace slipstream::api {

/// All of them into `out`, for chat and completions. Two that both ask for a format are refused by their names.
Status read_output_fields(const Json& body, Endpoint endpoint, int32_t vocab, GenerationRequest* out);

/// {"type": "text" | "json_object" | "json_schema" | "structural_tag", …}; empty for text. `flat`: name and schema stand beside
/// the type (text.format of /v1/responses), not in a member json_schema.
Result<std::optional<grammar::Format>> read_response_format(const Json& value, const std::string& param, bool flat);

}  // namespace slipstream::api
