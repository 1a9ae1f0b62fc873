// See chat_turns.h.
#include "server/api/chat_turns.h"

namespace slipstream::api {

void ChatTurns::system(const std::string& text) {
  open_ = false;
  if (messages_.size() == 1 && messages_[0]["role"] == "system")
    messages_[0]["content"].get_ref<std::string&>() += "\n\n" + text;
  else
    messages_.push_back({{"role", "system"}, {"content", text}});
}

void ChatTurns::user(const std::string& text, bool join) {
  open_ = false;
  if (join && !messages_.empty() && messages_.back()["role"] == "user")
    messages_.back()["content"].get_ref<std::string&>() += "\n" + text;
  else
    messages_.push_back({{"role", "user"}, {"content", text}});
}

Json& ChatTurns::turn(bool fits) {
  if (!open_ || !fits) messages_.push_back({{"role", "assistant"}});
  open_ = true;
  return messages_.back();
}

void ChatTurns::reasoning(const std::string& text) {
  const bool fits = open_ && !messages_.back().contains("content") && !messages_.back().contains("tool_calls");
  Json& message = turn(fits);
  if (message.contains("reasoning_content"))
    message["reasoning_content"].get_ref<std::string&>() += "\n" + text;
  else
    message["reasoning_content"] = text;
}

void ChatTurns::assistant(const std::string& text) {
  Json& message = turn(open_ && !messages_.back().contains("tool_calls"));
  if (message.contains("content"))
    message["content"].get_ref<std::string&>() += "\n" + text;
  else
    message["content"] = text;
}

void ChatTurns::call(const std::string& id, const std::string& name, Json arguments) {
  names_[id] = name;
  Json& calls = turn(true)["tool_calls"];
  calls.push_back({{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

void ChatTurns::result(const std::string& call_id, const std::string& text) {
  open_ = false;
  Json message = {{"role", "tool"}, {"tool_call_id", call_id}, {"content", text}};
  if (const auto name = names_.find(call_id); name != names_.end()) message["name"] = name->second;
  messages_.push_back(std::move(message));
}

}  // namespace slipstream::api
