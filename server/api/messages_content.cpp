// The messages of /v1/messages and their content blocks as chat messages; see read_message_turns in messages_request.h.
#include "config/limits.h"
#include "server/api/chat_turns.h"
#include "server/api/messages_request.h"
#include "server/api/text_parts.h"

namespace slipstream::api {
namespace {

Status read_tool_result(const Json& block, const std::string& at, ChatTurns* turns) {
  SLIP_TRY(const std::string id, read_text(block, "tool_use_id", at));
  std::string text;
  if (const auto content = block.find("content"); content != block.end() && !content->is_null()) {
    SLIP_TRY(text, read_text_parts(*content, at + ".content", {"text"}));
  }
  bool failed = false;
  if (const auto error = block.find("is_error"); error != block.end() && !error->is_null()) {
    if (!error->is_boolean()) return invalid_argument("is_error must be true or false", at + ".is_error");
    failed = error->get<bool>();
  }
  turns->result(id, failed ? "Error: " + text : text);  // templates have no other place for it
  return Ok{};
}

Status read_user_blocks(const Json& blocks, const std::string& at, ChatTurns* turns) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string block = at + "." + std::to_string(i);
    SLIP_TRY(const std::string type, read_type(blocks[i], block, "a content block"));
    if (type == "text") {
      SLIP_TRY(const std::string text, read_text(blocks[i], "text", block));
      turns->user(text, /*join=*/true);
    } else if (type == "tool_result") {
      SLIP_RETURN_IF_ERROR(read_tool_result(blocks[i], block, turns));
    } else {
      return unserved_type(type, block, "a content block of a user", "text or tool_result");
    }
  }
  return Ok{};
}

Status read_tool_use(const Json& block, const std::string& at, ChatTurns* turns) {
  SLIP_TRY(const std::string id, read_text(block, "id", at));
  SLIP_TRY(const std::string name, read_text(block, "name", at));
  const auto input = block.find("input");
  if (input == block.end() || !input->is_object()) return invalid_argument("input must be an object", at + ".input");
  turns->call(id, name, *input);
  return Ok{};
}

/// `*tools`: the last block asks for a tool, so that the turn cannot go on.
Status read_assistant_blocks(const Json& blocks, const std::string& at, ChatTurns* turns, bool* tools) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string block = at + "." + std::to_string(i);
    SLIP_TRY(const std::string type, read_type(blocks[i], block, "a content block"));
    *tools = type == "tool_use";
    if (type == "text") {
      SLIP_TRY(const std::string text, read_text(blocks[i], "text", block));
      turns->assistant(text);
    } else if (type == "thinking") {
      SLIP_TRY(const std::string text, read_text(blocks[i], "thinking", block));
      if (!text.empty()) turns->reasoning(text);
    } else if (type == "tool_use") {
      SLIP_RETURN_IF_ERROR(read_tool_use(blocks[i], block, turns));
    } else if (type == "redacted_thinking") {
      SLIP_TRY(const std::string data, read_text(blocks[i], "data", block));  // nobody here can read it
    } else {
      return unserved_type(type, block, "a content block of the assistant", "text, thinking or tool_use");
    }
  }
  return Ok{};
}

Status read_turn(const Json& message, const std::string& at, ChatTurns* turns, bool* assistant, bool* tools) {
  if (!message.is_object()) return invalid_argument("a message must be an object", at);
  SLIP_TRY(const std::string role, read_text(message, "role", at));
  const auto content = message.find("content");
  const std::string where = at + ".content";
  if (content == message.end() || !(content->is_string() || content->is_array()))
    return invalid_argument("content must be a string or a list of blocks", where);
  *assistant = role == "assistant";
  *tools = false;
  if (role == "system") {
    SLIP_TRY(const std::string text, read_text_parts(*content, where, {"text"}));
    turns->system(text);
  } else if (role == "user") {
    if (content->is_array()) return read_user_blocks(*content, where, turns);
    turns->user(content->get<std::string>(), /*join=*/true);
  } else if (role == "assistant") {
    if (content->is_array()) return read_assistant_blocks(*content, where, turns, tools);
    turns->assistant(content->get<std::string>());
  } else {
    return invalid_argument("role must be user, assistant or system", at + ".role");
  }
  return Ok{};
}

}  // namespace

Status read_message_turns(const Json& messages, ChatTurns* turns, bool* continues) {
  if (messages.empty()) return invalid_argument("messages is an empty list", "messages");
  if (static_cast<int32_t>(messages.size()) > limits::kMessages)
    return invalid_argument("messages holds " + std::to_string(messages.size()) + " messages; the limit is " +
                                std::to_string(limits::kMessages),
                            "messages");
  bool assistant = false, tools = false;
  for (size_t i = 0; i < messages.size(); ++i)
    SLIP_RETURN_IF_ERROR(read_turn(messages[i], "messages." + std::to_string(i), turns, &assistant, &tools));
  if (tools)
    return invalid_argument("the last message asks for a tool: send its tool_result in a user message",
                            "messages." + std::to_string(messages.size() - 1));
  *continues = assistant;
  return Ok{};
}

}  // namespace slipstream::api
