// The tools of /v1/messages; see api_tools.h.
#include "config/limits.h"
#include "server/api/api_tools.h"
#include "server/api/text_parts.h"

namespace slipstream::api {
namespace {

const Json* member(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

/// A tool of the client's in the shape that chat has. Those of a type of Anthropic's own have no schema, or run on its servers.
Result<Json> chat_tool(const Json& tool, const std::string& at) {
  if (!tool.is_object()) return invalid_argument("a tool must be an object", at);
  if (const Json* type = member(tool, "type"); type && *type != "custom")
    return unsupported("only tools of your own are supported: give a name, a description and an input_schema", at + ".type");
  const Json* schema = member(tool, "input_schema");
  if (!schema) return invalid_argument("a tool needs an input_schema", at + ".input_schema");
  Json function = {{"parameters", *schema}};
  for (const char* key : {"name", "description", "strict"})
    if (const Json* value = member(tool, key)) function[key] = *value;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

Result<Json> chat_choice(const Json& choice, Json* shape) {
  SLIP_TRY(const std::string type, read_type(choice, "tool_choice", "tool_choice"));
  if (const Json* single = member(choice, "disable_parallel_tool_use")) {
    if (!single->is_boolean())
      return invalid_argument("disable_parallel_tool_use must be true or false", "tool_choice.disable_parallel_tool_use");
    (*shape)["parallel_tool_calls"] = !single->get<bool>();
  }
  if (type == "auto" || type == "none") return Json(type);
  if (type == "any") return Json("required");
  if (type != "tool") return invalid_argument("tool_choice.type must be auto, any, tool or none", "tool_choice.type");
  SLIP_TRY(const std::string name, read_text(choice, "name", "tool_choice"));
  return Json{{"type", "function"}, {"function", {{"name", name}}}};
}

/// A param of the chat shape as the client has it.
std::string client_param(std::string param) {
  for (const auto& [theirs, ours] : {std::pair{".function.parameters", ".input_schema"}, std::pair{".function.", "."}, std::pair{".function", ""}}) {
    const size_t at = param.find(theirs);
    if (at != std::string::npos) return param.replace(at, std::string_view(theirs).size(), ours);
  }
  return param;
}

}  // namespace

Status read_messages_tools(const Json& body, GenerationRequest* out) {
  Json shape = Json::object();
  if (const Json* tools = member(body, "tools")) {
    if (static_cast<int32_t>(tools->size()) > limits::kTools)
      return invalid_argument("tools holds " + std::to_string(tools->size()) + " tools; the limit is " + std::to_string(limits::kTools),
                              "tools");
    shape["tools"] = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
      SLIP_TRY(Json tool, chat_tool((*tools)[i], "tools." + std::to_string(i)));
      shape["tools"].push_back(std::move(tool));
    }
  }
  if (const Json* choice = member(body, "tool_choice")) {
    SLIP_TRY(shape["tool_choice"], chat_choice(*choice, &shape));
  }
  auto status = read_tools(shape, out);
  if (status.ok()) return Ok{};
  Error error = std::move(status).error();
  error.param = client_param(std::move(error.param));
  return error;
}

}  // namespace slipstream::api
