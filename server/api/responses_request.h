// JSON body of /v1/responses -> a generation request, the items that were sent, and what the response repeats. Owns every check
// that needs no tokenizer. Knows no HTTP.
#pragma once

#include <string>

#include "server/api/api_tools.h"
#include "server/api/request_schema.h"
#include "server/api/response_store.h"

namespace slipstream::api {

struct ResponsesRequest {
  GenerationRequest generation;
  std::string previous_response_id;
  Json items = Json::array();         // of this input, as input_items answers them; only with `store`
  Json conversation = Json::array();  // items of the responses before it, then its own; only with `store`
  ResponsesTools tools;
  Json echo = Json::object();         // the members of the response that repeat the request, in its order
  bool store = false;
  bool logprobs = false;              // of the output text
  bool summary = false;               // reasoning comes as the summary
};

/// `key`: of the API key, whose stored responses alone can be named. `count_only`: for input_tokens, where nothing is
/// generated.
Result<ResponsesRequest> read_responses(const Json& body, const SchemaContext& context, ResponseStore& store,
                                        const std::string& key, bool count_only);

/// Input items into chat messages. `at` names the list in errors. With `kept` the items are also appended to it, whole and with
/// ids. References are looked up in the store.
Status read_items(const Json& items, const std::string& at, ResponseStore& store, const std::string& key, class ChatTurns* turns,
                  Json* kept);

}  // namespace slipstream::api
