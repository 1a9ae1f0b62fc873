// The messages and template fields of a chat request, normalised to what a chat template expects.
#include "config/limits.h"
#include "server/api/request_schema.h"
#include "server/json_guard.h"

namespace slipstream::api {
namespace {

/// string, null (where allowed) or a list of text parts, joined with a newline as templates expect one string.
Result<Json> read_content(const Json& content, const std::string& param) {
  if (content.is_string()) return content;
  if (!content.is_array()) return invalid_argument("content must be a string or a list of text parts", param);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = param + "." + std::to_string(i);
    const Json& part = content[i];
    if (part.is_string()) {
      text += (i ? "\n" : "") + part.get<std::string>();
      continue;
    }
    if (!part.is_object()) return invalid_argument("a content part must be an object", at);
    const auto type = part.find("type");
    if (type == part.end() || !type->is_string()) return invalid_argument("a content part needs a type", at + ".type");
    const auto& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal") {
      if (name == "image_url" || name == "input_image" || name == "image" || name == "input_audio" ||
          name == "audio_url" || name == "video_url" || name == "file" || name == "input_file")
        return unsupported("content parts of type " + name + " are not supported: only text is served", at + ".type");
      return invalid_argument("unknown type of a content part; use text", at + ".type");
    }
    const char* key = name == "refusal" ? "refusal" : "text";
    const auto value = part.find(key);
    if (value == part.end() || !value->is_string())
      return invalid_argument("a text part needs a string " + std::string(key), at + "." + key);
    text += (i ? "\n" : "") + value->get<std::string>();
  }
  return Json(text);
}

/// A call's arguments as templates want them: an object. They arrive as a string that holds JSON; none, or an empty
/// string, is an empty object. Text that holds no JSON object stays text, since an agent sends back what a model wrote
/// and many templates print it as it is; render_chat names this field where a template cannot.
Result<Json> read_arguments(const Json& function, const std::string& param) {
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || arguments->is_null()) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string())
    return invalid_argument("arguments must be a string that holds a JSON object, or an object", param);
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json::object();
  if (!check_json(text).ok()) return *arguments;
  Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_object() ? std::move(parsed) : *arguments;
}

Result<Json> read_called_function(const Json& function, const std::string& at) {
  if (!function.is_object()) return invalid_argument("a tool call needs function.name", at);
  const auto name = function.find("name");
  if (name == function.end() || !name->is_string())
    return invalid_argument("a tool call needs function.name", at + ".name");
  Json out = Json::object();
  out["name"] = *name;
  SLIP_TRY(out["arguments"], read_arguments(function, at + ".arguments"));
  return out;
}

/// Earlier tool calls of the assistant. A member that is null counts as absent.
Result<Json> read_tool_calls(const Json& calls, const std::string& param) {
  if (!calls.is_array()) return invalid_argument("tool_calls must be a list", param);
  Json out = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string at = param + "." + std::to_string(i);
    if (!calls[i].is_object()) return invalid_argument("a tool call must be an object", at);
    Json call = Json::object();
    for (const auto& [key, value] : calls[i].items())
      if (!value.is_null() && key != "function") call[key] = value;
    const auto function = calls[i].find("function");
    if (function == calls[i].end()) return invalid_argument("a tool call needs function.name", at + ".function");
    SLIP_TRY(call["function"], read_called_function(*function, at + ".function"));
    out.push_back(std::move(call));
  }
  return out;
}

bool has_tool_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && !calls->is_null() && !(calls->is_array() && calls->empty());
}

/// Both spellings of a call in history: tool_calls, and the deprecated function_call as a list of one. Null: no call.
Result<Json> read_calls(const Json& message, const std::string& at) {
  if (has_tool_calls(message)) return read_tool_calls(message["tool_calls"], at + ".tool_calls");
  const auto function = message.find("function_call");
  if (function == message.end() || function->is_null()) return Json(nullptr);
  Json call = {{"type", "function"}};
  SLIP_TRY(call["function"], read_called_function(*function, at + ".function_call"));
  return Json::array({std::move(call)});
}

Result<Json> read_message(const Json& message, const std::string& at) {
  if (!message.is_object()) return invalid_argument("a message must be an object", at);
  const auto role_field = message.find("role");
  if (role_field == message.end() || !role_field->is_string())
    return invalid_argument("a message needs a role", at + ".role");
  std::string role = role_field->get<std::string>();
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant" && role != "tool" && role != "function")
    return invalid_argument("role must be system, developer, user, assistant, tool or function", at + ".role");
  if (role == "function") role = "tool";  // the deprecated spelling; templates know only the new one

  Json out = Json::object();
  out["role"] = role;
  const auto content = message.find("content");
  SLIP_TRY(Json calls, read_calls(message, at));
  if (content != message.end() && !content->is_null()) {
    SLIP_TRY(out["content"], read_content(*content, at + ".content"));
  } else if (role == "assistant") {
    out["content"] = calls.is_null() ? Json("") : Json(nullptr);
  } else {
    return invalid_argument("a message with role " + role + " needs content", at + ".content");
  }
  if (!calls.is_null()) out["tool_calls"] = std::move(calls);
  if (const auto audio = message.find("audio"); audio != message.end() && !audio->is_null())
    return unsupported("audio in a message is not supported: only text is served", at + ".audio");
  for (const char* key : {"name", "tool_call_id", "reasoning_content", "reasoning", "refusal"}) {
    const auto value = message.find(key);
    if (value == message.end() || value->is_null()) continue;
    if (!value->is_string()) return invalid_argument(std::string(key) + " must be a string", at + "." + key);
    out[key] = *value;
  }
  // both spellings of the reasoning field exist among clients and templates
  if (out.contains("reasoning") && !out.contains("reasoning_content")) out["reasoning_content"] = out["reasoning"];
  if (out.contains("reasoning_content") && !out.contains("reasoning")) out["reasoning"] = out["reasoning_content"];
  return out;
}

}  // namespace

Status read_messages(const Json& messages, GenerationRequest* out) {
  if (!messages.is_array()) return invalid_argument("messages must be a list", "messages");
  if (messages.empty()) return invalid_argument("messages is an empty list", "messages");
  if (static_cast<int32_t>(messages.size()) > limits::kMessages)
    return invalid_argument("messages holds " + std::to_string(messages.size()) + " messages; the limit is " +
                                std::to_string(limits::kMessages),
                            "messages");
  out->messages = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    SLIP_TRY(auto message, read_message(messages[i], "messages." + std::to_string(i)));
    if (message.contains("tool_calls") && !has_tool_calls(messages[i])) out->function_calls.insert(i);
    out->messages.push_back(std::move(message));
  }
  return Ok{};
}

Status read_template_fields(const Json& body, GenerationRequest* out) {
  const auto find = [&](const char* name) -> const Json* {
    const auto it = body.find(name);
    return it == body.end() || it->is_null() ? nullptr : &*it;
  };
  for (const char* name : {"add_generation_prompt", "continue_final_message", "enable_thinking"})
    if (const Json* v = find(name); v && !v->is_boolean())
      return invalid_argument(std::string(name) + " must be true or false", name);

  if (const Json* kwargs = find("chat_template_kwargs")) {
    if (!kwargs->is_object()) return invalid_argument("chat_template_kwargs must be an object", "chat_template_kwargs");
    for (const auto& [name, value] : kwargs->items()) {
      // what the renderer itself owns may not be replaced from a request
      if (name == "messages" || name == "tools" || name == "chat_template" || name == "tokenize" ||
          name == "add_generation_prompt" || name == "continue_final_message" || name == "bos_token" ||
          name == "eos_token")
        return invalid_argument("chat_template_kwargs may not set " + name, "chat_template_kwargs." + name);
      out->template_extra[name] = value;
    }
  }
  const Json* effort = find("reasoning_effort");
  std::string effort_name = "reasoning_effort";
  if (const Json* reasoning = find("reasoning"); !effort && reasoning && reasoning->is_object()) {
    const auto inner = reasoning->find("effort");
    if (inner != reasoning->end() && !inner->is_null()) effort = &*inner;
    effort_name = "reasoning.effort";
  }
  if (effort) {
    const std::string value = effort->is_string() ? effort->get<std::string>() : "";
    if (value != "none" && value != "minimal" && value != "low" && value != "medium" && value != "high" &&
        value != "xhigh" && value != "max")
      return invalid_argument(effort_name + " must be none, minimal, low, medium, high, xhigh or max", effort_name);
    out->template_extra["reasoning_effort"] = value;
    out->template_extra["enable_thinking"] = value != "none";
  }
  if (const Json* thinking = find("enable_thinking")) out->template_extra["enable_thinking"] = *thinking;

  const Json* continued = find("continue_final_message");
  const Json* prompted = find("add_generation_prompt");
  out->continue_final_message = continued && continued->get<bool>();
  out->add_generation_prompt = prompted ? prompted->get<bool>() : !out->continue_final_message;
  if (out->continue_final_message && out->add_generation_prompt)
    return invalid_argument("continue_final_message and add_generation_prompt exclude each other",
                            "continue_final_message");
  if (out->continue_final_message && !out->messages.empty() && out->messages.back()["role"] != "assistant")
    return invalid_argument("continue_final_message needs a last message of the assistant", "continue_final_message");
  return Ok{};
}

}  // namespace slipstream::api
