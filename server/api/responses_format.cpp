// See responses_format.h.
#include "server/api/responses_format.h"

#include <ctime>

namespace slipstream::api {
namespace {

Json usage_json(const Usage& usage) {
  Json out;
  out["input_tokens"] = usage.prompt_tokens;
  out["input_tokens_details"] = {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}};
  out["output_tokens"] = usage.completion_tokens;
  out["output_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return out;
}

}  // namespace

ResponsesFormat::ResponsesFormat(ResponseHead head)
    : head_(std::move(head)), items_(head_.tokenizer, head_.summary, head_.top_logprobs, head_.spaces) {}

Json ResponsesFormat::response(const char* status, const Generation* generation) const {
  const std::string_view name = status;
  const bool cut = name == "incomplete", done = cut || name == "completed";
  Json out;
  out["id"] = head_.id;
  out["object"] = "response";
  out["created_at"] = head_.created;
  out["completed_at"] = name == "completed" ? Json(static_cast<int64_t>(std::time(nullptr))) : Json(nullptr);
  out["status"] = status;
  out["background"] = false;
  out["error"] = error_;
  out["incomplete_details"] = cut ? Json{{"reason", "max_output_tokens"}} : Json(nullptr);
  out["model"] = head_.model;
  out["output"] = items_.items();
  out["usage"] = done && generation ? usage_json(generation->usage()) : Json(nullptr);
  for (const auto& [key, value] : head_.echo.items()) out[key] = value;
  return out;
}

const char* ResponsesFormat::finish(FinishReason reason) {
  const bool cut = reason == FinishReason::kLength;
  items_.finish(cut, &events_);
  return cut ? "incomplete" : "completed";
}

void ResponsesFormat::collect(const ChoicePiece& piece) { items_.add(piece.parts, piece.tokens, &events_); }

std::string ResponsesFormat::whole(const std::vector<FinishedChoice>& choices, const Generation& generation) {
  const char* status = finish(choices[0].finish);
  std::string body = dump(response(status, &generation));
  if (head_.finished) head_.finished(body, items_.items());
  return body;
}

void ResponsesFormat::begin(const Generation&, std::string* out) {
  events_.to(out);
  const Json begun = response("in_progress", nullptr);
  events_.write({{"type", "response.created"}, {"response", begun}});
  events_.write({{"type", "response.in_progress"}, {"response", begun}});
}

void ResponsesFormat::piece(const ChoicePiece& piece, const Generation&, std::string* out) {
  events_.to(out);
  items_.add(piece.parts, piece.tokens, &events_);
  if (piece.finish != FinishReason::kNone) reason_ = piece.finish;
}

void ResponsesFormat::end(const Generation& generation, std::string* out) {
  events_.to(out);
  const std::string status = finish(reason_);
  const Json ended = response(status.c_str(), &generation);
  events_.write({{"type", "response." + status}, {"response", ended}});
  append_data_event(out, "[DONE]");
  if (head_.finished) head_.finished(dump(ended), items_.items());
}

void ResponsesFormat::fail(const ApiError& error, const std::string& request_id, std::string* out) {
  events_.to(out);
  const std::string code = error.code.empty() ? "server_error" : error.code;
  const std::string message = error_message(error, request_id);
  events_.write({{"type", "error"}, {"code", code}, {"message", message}, {"param", nullptr}});
  error_ = {{"code", "server_error"}, {"message", message}};
  events_.write({{"type", "response.failed"}, {"response", response("failed", nullptr)}});
  append_data_event(out, "[DONE]");
}

}  // namespace slipstream::api
