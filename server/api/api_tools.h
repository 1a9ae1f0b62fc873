// The tools of /v1/responses and /v1/messages in the shape that chat has, and back: read_tools checks them there, and its errors get
// the names that the client used. Knows no template and no parser.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/api/request_schema.h"

namespace slipstream::api {

/// A function inside a namespace goes by one name at the model.
struct NamespacedName {
  std::string space, name;
};
std::string flat_name(const std::string& space, const std::string& name);

struct ResponsesTools {
  Json shown = Json::array();                    // those that the model may call, as the response repeats them
  std::map<std::string, NamespacedName> spaces;  // flat name -> what the client calls it
  std::vector<std::string> ignored;              // types of tools that run on a server, which the model is not told of
};

/// tools, tool_choice and parallel_tool_calls of a body of /v1/responses into `out`.
Result<ResponsesTools> read_responses_tools(const Json& body, GenerationRequest* out);

/// tools and tool_choice of a body of /v1/messages into `out`.
Status read_messages_tools(const Json& body, GenerationRequest* out);

}  // namespace slipstream::api
