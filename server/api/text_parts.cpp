// See text_parts.h.
#include "server/api/text_parts.h"

#include <algorithm>

namespace slipstream::api {
namespace {

/// Of both APIs, and of neither's text: known, so that the refusal can name them.
constexpr std::string_view kUnserved[] = {
    // parts
    "input_image", "input_file", "input_audio", "image", "image_url", "document", "search_result", "file", "container_upload",
    "computer_screenshot", "tool_reference", "browser_state",
    // items of /v1/responses
    "file_search_call", "computer_call", "computer_call_output", "web_search_call", "image_generation_call",
    "code_interpreter_call", "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output",
    "apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call",
    "custom_tool_call", "custom_tool_call_output", "tool_search_call", "tool_search_output", "compaction", "compaction_trigger",
    "additional_tools", "program", "program_output", "configuration_update",
    // blocks of /v1/messages
    "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
    "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result", "mcp_tool_use",
    "mcp_tool_result", "compaction_delta"};

}  // namespace

Result<std::string> read_type(const Json& object, const std::string& at, const char* what) {
  if (!object.is_object()) return invalid_argument(std::string(what) + " must be an object", at);
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    return invalid_argument(std::string(what) + " needs a type", at + ".type");
  return type->get<std::string>();
}

Result<std::string> read_text(const Json& object, const char* key, const std::string& at) {
  const auto value = object.find(key);
  if (value == object.end() || !value->is_string())
    return invalid_argument(std::string(key) + " must be a string", at + "." + key);
  return value->get<std::string>();
}

Error unserved_type(const std::string& type, const std::string& at, const char* what, std::string_view served) {
  if (std::find(std::begin(kUnserved), std::end(kUnserved), type) != std::end(kUnserved))
    return unsupported(std::string(what) + " of type " + type + " is not supported: use " + std::string(served), at + ".type");
  return invalid_argument("unknown type of " + std::string(what) + "; use " + std::string(served), at + ".type");
}

Result<std::string> read_text_parts(const Json& content, const std::string& at, std::initializer_list<std::string_view> types) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return invalid_argument("content must be a string or a list of text parts", at);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part = at + "." + std::to_string(i);
    SLIP_TRY(const std::string type, read_type(content[i], part, "a content part"));
    if (std::find(types.begin(), types.end(), type) == types.end())
      return unserved_type(type, part, "a content part", *types.begin());
    SLIP_TRY(const std::string piece, read_text(content[i], type == "refusal" ? "refusal" : "text", part));
    if (i > 0) text += "\n";
    text += piece;
  }
  return text;
}

}  // namespace slipstream::api
