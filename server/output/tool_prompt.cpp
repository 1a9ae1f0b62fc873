// See tool_prompt.h.
#include "server/output/tool_prompt.h"

#include <string>

#include <nlohmann/json.hpp>

namespace slipstream::output {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>() : std::string();
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string description(const Json& tools) {
  std::string out = "You can call these functions, one JSON description per line:\n<tools>\n";
  for (const Json& tool : tools) out += dumped(tool["function"]) + "\n";
  out += "</tools>\n\nWhere a call helps, answer with nothing but the call, in exactly this form, once for each call:\n"
         "<tool_call>\n{\"name\": \"the function's name\", \"arguments\": {\"a parameter's name\": \"its value\"}}\n</tool_call>\n"
         "The results come back as <tool_response>. Where no call helps, answer in plain words.";
  return out;
}

/// An assistant's turn as the model itself would have written it.
Json turn_with_calls(const Json& message) {
  Json out = message;
  std::string text = text_of(message);
  for (const Json& call : message["tool_calls"]) {
    const Json& function = call["function"];
    const Json& arguments = function["arguments"];
    if (!text.empty()) text += "\n";
    text += "<tool_call>\n{\"name\": " + dumped(function["name"]) +
            ", \"arguments\": " + (arguments.is_string() ? arguments.get<std::string>() : dumped(arguments)) + "}\n</tool_call>";
  }
  out["content"] = text;
  out.erase("tool_calls");
  return out;
}

}  // namespace

bool has_tool_turns(const Json& messages) {
  for (const Json& message : messages)
    if (message.contains("tool_calls") || message["role"] == "tool") return true;
  return false;
}

Json with_tools_as_text(const Json& messages, const Json& tools, bool system_role) {
  Json out = Json::array();
  bool joins = false;  // the newest message holds results, and further ones join it
  for (const Json& message : messages) {
    const bool result = message["role"] == "tool";
    if (result) {
      const std::string text = "<tool_response>\n" + text_of(message) + "\n</tool_response>";
      if (joins)
        out.back()["content"] = text_of(out.back()) + "\n" + text;
      else
        out.push_back({{"role", "user"}, {"content", text}});
    } else {
      out.push_back(message.contains("tool_calls") ? turn_with_calls(message) : message);
    }
    joins = result;
  }
  if (tools.is_null() || out.empty()) return out;
  const std::string text = description(tools);
  if (!system_role || out.front()["role"] == "system")
    out.front()["content"] = out.front()["role"] == "system" ? text_of(out.front()) + "\n\n" + text : text + "\n\n" + text_of(out.front());
  else
    out.insert(out.begin(), Json{{"role", "system"}, {"content", text}});
  return out;
}

}  // namespace slipstream::output
