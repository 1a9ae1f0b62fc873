// JSON body of /v1/messages and /v1/messages/count_tokens -> a generation request. Owns every check that needs no tokenizer.
// Knows no HTTP.
#pragma once

#include <string>

#include "server/api/request_schema.h"

namespace slipstream::api {

struct MessagesRequest {
  GenerationRequest generation;
  bool omit_thinking = false;  // thinking blocks come without their text
};

/// `count_only`: for count_tokens, which needs no max_tokens.
Result<MessagesRequest> read_messages_body(const Json& body, const SchemaContext& context, bool count_only);

/// `messages` of the body into turns of chat; `*continues`: the last one is the assistant's, and is to go on.
Status read_message_turns(const Json& messages, class ChatTurns* turns, bool* continues);

}  // namespace slipstream::api
