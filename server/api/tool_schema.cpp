// The tools of a chat request and what it wants of reasoning, checked and normalised. Knows no template and no parser.
#include <algorithm>
#include <set>

#include "config/limits.h"
#include "server/api/request_schema.h"

namespace slipstream::api {
namespace {

/// A member that is there and not null.
const Json* member(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

bool is_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= static_cast<size_t>(limits::kToolNameBytes) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
         });
}

Result<std::string> read_name(const Json& function, const std::string& at) {
  const Json* name = member(function, "name");
  if (!name || !name->is_string()) return invalid_argument("a function needs a name", at + ".name");
  if (!is_tool_name(name->get_ref<const std::string&>()))
    return invalid_argument("a function's name must have 1 to " + std::to_string(limits::kToolNameBytes) +
                                " letters, digits or - _ .",
                            at + ".name");
  return name->get<std::string>();
}

/// What templates expect: always parameters, and nothing that only steers the server.
Result<Json> read_function(const Json& function, const std::string& at, std::set<std::string>* strict) {
  Json out = Json::object();
  SLIP_TRY(out["name"], read_name(function, at));
  if (const Json* description = member(function, "description")) {
    if (!description->is_string()) return invalid_argument("a description must be a string", at + ".description");
    out["description"] = *description;
  }
  const Json* parameters = member(function, "parameters");
  if (parameters && !parameters->is_object())
    return invalid_argument("parameters must be a JSON schema, an object", at + ".parameters");
  out["parameters"] = parameters ? *parameters : Json{{"type", "object"}, {"properties", Json::object()}};
  if (const Json* flag = member(function, "strict")) {
    if (!flag->is_boolean()) return invalid_argument("strict must be true or false", at + ".strict");
    if (flag->get<bool>()) strict->insert(out["name"].get<std::string>());
  }
  for (const auto& [key, value] : function.items())
    if (!value.is_null() && key != "strict" && !out.contains(key)) out[key] = value;
  return out;
}

Result<Json> read_tool(const Json& tool, const std::string& at, std::set<std::string>* strict) {
  if (!tool.is_object()) return invalid_argument("a tool must be an object", at);
  const Json* type = member(tool, "type");
  if (!type || !type->is_string()) return invalid_argument("a tool needs a type: function", at + ".type");
  if (*type != "function")
    return unsupported("only tools of type function are served: describe this one as a function", at + ".type");
  const Json* function = member(tool, "function");
  if (!function || !function->is_object()) return invalid_argument("a tool needs a function, an object", at + ".function");
  Json out = {{"type", "function"}};
  SLIP_TRY(out["function"], read_function(*function, at + ".function", strict));
  return out;
}

Status read_tool_list(const Json& tools, GenerationRequest* out) {
  if (!tools.is_array()) return invalid_argument("tools must be a list", "tools");
  if (static_cast<int32_t>(tools.size()) > limits::kTools)
    return invalid_argument("tools holds " + std::to_string(tools.size()) + " tools; the limit is " + std::to_string(limits::kTools),
                            "tools");
  std::set<std::string> names;
  Json list = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string at = "tools." + std::to_string(i);
    SLIP_TRY(Json tool, read_tool(tools[i], at, &out->strict_tools));
    if (!names.insert(tool["function"]["name"].get<std::string>()).second)
      return invalid_argument("two tools have the same name", at + ".function.name");
    list.push_back(std::move(tool));
  }
  const auto bytes = static_cast<int64_t>(list.dump(-1, ' ', false, Json::error_handler_t::replace).size());
  if (bytes > limits::kToolsBytes)
    return invalid_argument("tools hold " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(limits::kToolsBytes),
                            "tools");
  if (!list.empty()) out->tools = std::move(list);
  return Ok{};
}

/// The name in {"function": {"name"}}, or in {"name"} as /v1/responses has it.
Result<std::string> chosen_name(const Json& choice, const std::string& at) {
  const Json* function = member(choice, "function");
  const Json& holder = function && function->is_object() ? *function : choice;
  const Json* name = member(holder, "name");
  if (!name || !name->is_string())
    return invalid_argument("needs the name of a function", at + (function ? ".function.name" : ".name"));
  return name->get<std::string>();
}

/// Only the tools of these names stay. What is strict may name others: they are not in the prompt.
Status keep_tools(const std::set<std::string>& names, const std::string& param, GenerationRequest* out) {
  Json kept = Json::array();
  if (out->tools.is_array())
    for (Json& tool : out->tools)
      if (names.contains(tool["function"]["name"].get_ref<const std::string&>())) kept.push_back(std::move(tool));
  if (kept.size() != names.size()) return invalid_argument("names a function that is not among tools", param);
  out->tools = std::move(kept);
  return Ok{};
}

Status read_allowed_tools(const Json& choice, GenerationRequest* out) {
  const Json* inner = member(choice, "allowed_tools");
  const Json& allowed = inner && inner->is_object() ? *inner : choice;
  const std::string at = std::string("tool_choice") + (&allowed == &choice ? "" : ".allowed_tools");
  const Json* mode = member(allowed, "mode");
  if (mode && *mode != "auto" && *mode != "required") return invalid_argument("mode must be auto or required", at + ".mode");
  const Json* tools = member(allowed, "tools");
  if (!tools || !tools->is_array() || tools->empty()) return invalid_argument("needs a list of tools", at + ".tools");
  std::set<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string here = at + ".tools." + std::to_string(i);
    if (!(*tools)[i].is_object()) return invalid_argument("a tool must be an object", here);
    SLIP_TRY(auto name, chosen_name((*tools)[i], here));
    names.insert(std::move(name));
  }
  if (mode && *mode == "required") out->tool_choice = ToolChoice::kRequired;
  return keep_tools(names, at + ".tools", out);
}

Status read_tool_choice(const Json& choice, GenerationRequest* out) {
  const auto malformed = [] {
    return invalid_argument("tool_choice must be none, auto, required, or an object that names functions", "tool_choice");
  };
  if (choice.is_string()) {
    if (choice == "none")
      out->tool_choice = ToolChoice::kNone;
    else if (choice == "required")
      out->tool_choice = ToolChoice::kRequired;
    else if (choice != "auto")
      return malformed();
    if (choice == "required" && out->tools.is_null())
      return invalid_argument("tool_choice required needs tools", "tool_choice");
    return Ok{};
  }
  if (!choice.is_object()) return malformed();
  const Json* type = member(choice, "type");
  if (!type || !type->is_string()) return malformed();
  if (*type == "allowed_tools") return read_allowed_tools(choice, out);
  if (*type != "function") return unsupported("only functions can be chosen", "tool_choice.type");
  SLIP_TRY(auto name, chosen_name(choice, "tool_choice"));
  out->tool_choice = ToolChoice::kRequired;
  out->parallel_tool_calls = false;  // that function, once
  return keep_tools({name}, "tool_choice.function.name", out);
}

}  // namespace

Status read_tools(const Json& body, GenerationRequest* out) {
  if (const Json* parallel = member(body, "parallel_tool_calls")) {
    if (!parallel->is_boolean()) return invalid_argument("parallel_tool_calls must be true or false", "parallel_tool_calls");
    out->parallel_tool_calls = parallel->get<bool>();
  }
  if (const Json* tools = member(body, "tools")) SLIP_RETURN_IF_ERROR(read_tool_list(*tools, out));
  if (!out->tools.is_null()) out->tool_choice = ToolChoice::kAuto;
  if (const Json* choice = member(body, "tool_choice")) SLIP_RETURN_IF_ERROR(read_tool_choice(*choice, out));
  if (out->tool_choice == ToolChoice::kNone) {  // a model that sees tools calls them
    out->tools = nullptr;
    out->strict_tools.clear();
  }
  return Ok{};
}

Status read_reasoning(const Json& body, GenerationRequest* out) {
  if (const Json* show = member(body, "include_reasoning")) out->show_reasoning = show->get<bool>();
  if (const Json* split = member(body, "separate_reasoning")) out->split_reasoning = split->get<bool>();
  if (const Json* stream = member(body, "stream_reasoning")) out->stream_reasoning = stream->get<bool>();
  if (const Json* format = member(body, "reasoning_format")) {
    if (*format != "auto" && *format != "deepseek" && *format != "none")
      return invalid_argument("reasoning_format must be auto, deepseek or none", "reasoning_format");
    if (*format == "none") out->split_reasoning = false;
  }
  if (const Json* budget = member(body, "thinking_token_budget")) out->thinking_token_budget = budget->get<int32_t>();
  const Json* reasoning = member(body, "reasoning");
  if (!reasoning) return Ok{};
  for (const char* name : {"exclude", "enabled"}) {
    const Json* flag = member(*reasoning, name);
    if (!flag) continue;
    if (!flag->is_boolean())
      return invalid_argument(std::string(name) + " must be true or false", std::string("reasoning.") + name);
    if (std::string_view(name) == "exclude")
      out->show_reasoning = !flag->get<bool>();
    else if (!out->template_extra.contains("enable_thinking"))
      out->template_extra["enable_thinking"] = flag->get<bool>();
  }
  const Json* most = member(*reasoning, "max_tokens");
  if (!most || out->thinking_token_budget >= 0) return Ok{};
  const limits::IntBound& bound = limits::kThinkingTokenBudget;
  if (!most->is_number_integer() || *most < bound.min || *most > bound.max)
    return invalid_argument("reasoning.max_tokens must be an integer from 0 to " + std::to_string(bound.max), "reasoning.max_tokens");
  out->thinking_token_budget = most->get<int32_t>();
  out->thinking_budget_name = "reasoning.max_tokens";
  return Ok{};
}

}  // namespace slipstream::api
