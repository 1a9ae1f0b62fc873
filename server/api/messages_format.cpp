// See messages_format.h.
#include "server/api/messages_format.h"

#include "server/api/messages_error.h"

namespace slipstream::api {
namespace {

constexpr const char* kPing = "{\"type\":\"ping\"}";

/// As this API counts: input_tokens are those that did not come from the cache.
Json usage_json(const Usage& usage) {
  Json out;
  out["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
  out["cache_creation_input_tokens"] = 0;
  out["cache_read_input_tokens"] = usage.cached_tokens;
  out["output_tokens"] = usage.completion_tokens;
  out["output_tokens_details"] = {{"thinking_tokens", usage.reasoning_tokens}};
  return out;
}

Json message(const MessageHead& head, Json content, Json stop_reason, Json stop_sequence, Json usage) {
  Json out;
  out["id"] = head.id;
  out["type"] = "message";
  out["role"] = "assistant";
  out["model"] = head.model;
  out["content"] = std::move(content);
  out["stop_reason"] = std::move(stop_reason);
  out["stop_sequence"] = std::move(stop_sequence);
  out["usage"] = std::move(usage);
  out["usage"]["service_tier"] = "standard";
  return out;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

MessagesFormat::MessagesFormat(MessageHead head) : head_(std::move(head)), blocks_(head_.omit_thinking) {}

const char* MessagesFormat::stop_reason(FinishReason finish, const std::string& stop_string) const {
  if (finish == FinishReason::kLength) return head_.context_bounds ? "model_context_window_exceeded" : "max_tokens";
  if (!stop_string.empty()) return "stop_sequence";
  return blocks_.has_calls() ? "tool_use" : "end_turn";
}

void MessagesFormat::collect(const ChoicePiece& piece) { blocks_.add(piece.parts, nullptr); }

std::string MessagesFormat::whole(const std::vector<FinishedChoice>& choices, const Generation& generation) {
  const FinishedChoice& choice = choices[0];
  blocks_.finish(nullptr);
  return dump(message(head_, blocks_.blocks(), stop_reason(choice.finish, choice.stop_string), text_or_null(choice.stop_string),
                      usage_json(generation.usage())));
}

void MessagesFormat::begin(const Generation& generation, std::string* out) {
  // what comes from the cache is known with the first token: message_delta has the final figures
  const Json begun = message(head_, Json::array(), nullptr, nullptr, usage_json(generation.usage()));
  append_named_event(out, "message_start", dump({{"type", "message_start"}, {"message", begun}}));
  keep_alive(out);
}

void MessagesFormat::piece(const ChoicePiece& piece, const Generation&, std::string* out) {
  blocks_.add(piece.parts, out);
  if (piece.finish == FinishReason::kNone) return;
  finish_ = piece.finish;
  stop_string_ = piece.stop_string;
}

void MessagesFormat::end(const Generation& generation, std::string* out) {
  blocks_.finish(out);
  const Json delta = {{"stop_reason", stop_reason(finish_, stop_string_)}, {"stop_sequence", text_or_null(stop_string_)}};
  append_named_event(out, "message_delta",
                     dump({{"type", "message_delta"}, {"delta", delta}, {"usage", usage_json(generation.usage())}}));
  append_named_event(out, "message_stop", "{\"type\":\"message_stop\"}");
}

void MessagesFormat::fail(const ApiError& error, const std::string& request_id, std::string* out) {
  append_named_event(out, "error", messages_error_body(error, request_id));
}

void MessagesFormat::keep_alive(std::string* out) { append_named_event(out, "ping", kPing); }

HttpResponse MessagesFormat::refusal(const ApiError& error, const std::string& request_id) {
  return messages_error(error, request_id);
}

}  // namespace slipstream::api
