// The tools of /v1/responses; see api_tools.h.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "config/limits.h"
#include "server/api/api_tools.h"
#include "server/api/text_parts.h"

namespace slipstream::api {
namespace {

/// Offered by agents unasked, and only an offer: without them the model answers from what it knows. They are left out, and the
/// answer says which.
constexpr std::string_view kIgnored[] = {"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
                                         "image_generation", "tool_search"};
/// A request that has one of these is built on it.
constexpr std::string_view kUnserved[] = {"file_search", "code_interpreter", "computer", "computer_use_preview", "mcp", "custom",
                                          "local_shell", "shell", "apply_patch", "programmatic_tool_calling"};

bool among(std::span<const std::string_view> list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

const Json* member(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

class ToolReader {
 public:
  explicit ToolReader(ResponsesTools* out) : out_(out) {}

  Status read(const Json& tools, const std::string& at, const std::string& space) {
    if (!tools.is_array()) return invalid_argument("tools must be a list", at);
    if (static_cast<int32_t>(tools.size()) > limits::kTools)
      return invalid_argument(at + " holds " + std::to_string(tools.size()) + " tools; the limit is " + std::to_string(limits::kTools), at);
    for (size_t i = 0; i < tools.size(); ++i)
      SLIP_RETURN_IF_ERROR(read_one(tools[i], at + "." + std::to_string(i), space));
    return Ok{};
  }

  Json chat = Json::array();
  std::vector<std::string> places;  // of each in `chat`, as the client sees it

 private:
  Status read_one(const Json& tool, const std::string& at, const std::string& space) {
    SLIP_TRY(const std::string type, read_type(tool, at, "a tool"));
    if (type == "function") return read_function(tool, at, space);
    if (type == "namespace" && space.empty()) return read_namespace(tool, at);
    if (among(kIgnored, type)) {
      if (std::find(out_->ignored.begin(), out_->ignored.end(), type) == out_->ignored.end()) out_->ignored.push_back(type);
      return Ok{};
    }
    if (among(kUnserved, type))
      return unsupported("tools of type " + type + " are not supported: give a function that your side carries out", at + ".type");
    return invalid_argument("unknown type of a tool; use function", at + ".type");
  }

  Status read_namespace(const Json& tool, const std::string& at) {
    SLIP_TRY(const std::string name, read_text(tool, "name", at));
    if (name.empty()) return invalid_argument("a namespace needs a name", at + ".name");
    const auto tools = tool.find("tools");
    if (tools == tool.end()) return invalid_argument("a namespace needs tools", at + ".tools");
    const size_t before = chat.size();
    SLIP_RETURN_IF_ERROR(read(*tools, at + ".tools", name));
    if (chat.size() > before) out_->shown.push_back(tool);
    return Ok{};
  }

  Status read_function(const Json& tool, const std::string& at, const std::string& space) {
    Json function = Json::object();
    for (const char* key : {"name", "description", "parameters", "strict"})
      if (const Json* value = member(tool, key)) function[key] = *value;
    if (!space.empty() && function.contains("name") && function["name"].is_string()) {
      const auto name = function["name"].get<std::string>();
      const std::string flat = flat_name(space, name);
      out_->spaces[flat] = {space, name};
      function["name"] = flat;
    }
    if (space.empty()) {
      Json shown = {{"type", "function"}};
      for (const char* key : {"name", "description", "parameters", "strict"}) {
        const Json* value = member(tool, key);
        shown[key] = value ? *value : Json(nullptr);
      }
      out_->shown.push_back(std::move(shown));
    }
    chat.push_back({{"type", "function"}, {"function", std::move(function)}});
    places.push_back(at);
    return Ok{};
  }

  ResponsesTools* out_;
};

/// "tools.2.function.name" of the chat shape, where the client has it.
std::string client_param(const std::string& param, const std::vector<std::string>& places) {
  constexpr std::string_view prefix = "tools.", inner = ".function";
  if (!param.starts_with(prefix)) return param;
  const size_t dot = param.find('.', prefix.size());
  const size_t index = std::strtoull(param.c_str() + prefix.size(), nullptr, 10);
  if (index >= places.size()) return param;
  std::string_view rest = dot == std::string::npos ? std::string_view() : std::string_view(param).substr(dot);
  if (rest.starts_with(inner)) rest.remove_prefix(inner.size());
  return places[index] + std::string(rest);
}

}  // namespace

std::string flat_name(const std::string& space, const std::string& name) { return space + "__" + name; }

Result<ResponsesTools> read_responses_tools(const Json& body, GenerationRequest* out) {
  ResponsesTools tools;
  ToolReader reader(&tools);
  if (const Json* list = member(body, "tools")) SLIP_RETURN_IF_ERROR(reader.read(*list, "tools", ""));
  Json shape = {{"tools", std::move(reader.chat)}};
  if (const Json* parallel = member(body, "parallel_tool_calls")) shape["parallel_tool_calls"] = *parallel;
  if (const Json* choice = member(body, "tool_choice")) {
    const Json* type = choice->is_object() ? member(*choice, "type") : nullptr;
    if (type && type->is_string() && (among(kIgnored, type->get<std::string>()) || among(kUnserved, type->get<std::string>())))
      return unsupported("a tool of type " + type->get<std::string>() + " cannot be chosen: choose a function", "tool_choice.type");
    shape["tool_choice"] = *choice;
  }
  auto status = read_tools(shape, out);
  if (status.ok()) return tools;
  Error error = std::move(status).error();
  error.param = client_param(error.param, reader.places);
  return error;
}

}  // namespace slipstream::api
