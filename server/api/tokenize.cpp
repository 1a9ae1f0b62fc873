// POST /tokenize, /detokenize and /apply-template, GET /tokenizer_info: what the model will really see.
#include "server/api/call.h"
#include "server/api/prompt_text.h"
#include "server/api/request_schema.h"
#include "server/api/run_generation.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

/// A body that may name a model, with messages read when it has any.
Result<GenerationRequest> read_common(const Services& services, const Json& body) {
  GenerationRequest out;
  if (const auto model = body.find("model"); model != body.end() && !model->is_null()) {
    if (!model->is_string()) return invalid_argument("model must be a string", "model");
    out.model = model->get<std::string>();
  }
  SLIP_RETURN_IF_ERROR(check_model(services, out.model));
  if (const auto messages = body.find("messages"); messages != body.end() && !messages->is_null()) {
    SLIP_RETURN_IF_ERROR(read_messages(*messages, &out));
    SLIP_RETURN_IF_ERROR(read_template_fields(body, &out));
    SLIP_RETURN_IF_ERROR(read_tools(body, &out));
  }
  return out;
}

Result<bool> flag(const Json& body, const char* name, bool otherwise) {
  const auto it = body.find(name);
  if (it == body.end() || it->is_null()) return otherwise;
  if (!it->is_boolean()) return invalid_argument(std::string(name) + " must be true or false", name);
  return it->get<bool>();
}

Result<Json> tokenize_answer(const Services& services, const std::string& text) {
  SLIP_TRY(const Json body, parse_body(text));
  SLIP_TRY(const GenerationRequest request, read_common(services, body));
  SLIP_TRY(const bool add_special, flag(body, "add_special_tokens", true));
  SLIP_TRY(const bool with_strings, flag(body, "return_token_strs", false));
  std::vector<int32_t> ids;
  if (!request.messages.is_null()) {
    SLIP_TRY(ids, tokenize_chat(services, request));
  } else {
    // prompt is vLLM's name, content llama.cpp's
    auto prompt = body.find("prompt");
    if (prompt == body.end()) prompt = body.find("content");
    if (prompt == body.end()) return invalid_argument("prompt or messages is missing", "prompt");
    if (!prompt->is_string()) return invalid_argument("prompt must be a string", "prompt");
    SLIP_TRY(ids, tokenize_text(services, prompt->get<std::string>(), add_special));
  }
  Json out;
  out["count"] = ids.size();
  out["max_model_len"] = services.model.context_length;
  out["tokens"] = ids;
  if (with_strings) {
    out["token_strs"] = Json::array();
    for (const int32_t id : ids)
      out["token_strs"].push_back(json_text::replace_invalid_utf8(services.tokenizer->token_bytes(id)));
  } else {
    out["token_strs"] = nullptr;
  }
  return out;
}

Result<Json> detokenize_answer(const Services& services, const std::string& text) {
  SLIP_TRY(const Json body, parse_body(text));
  SLIP_TRY(const GenerationRequest request, read_common(services, body));
  SLIP_TRY(const bool skip_special, flag(body, "skip_special_tokens", false));
  const auto tokens = body.find("tokens");
  if (tokens == body.end()) return invalid_argument("tokens is missing", "tokens");
  if (!tokens->is_array()) return invalid_argument("tokens must be a list of token ids", "tokens");
  SLIP_TRY(const std::vector<int32_t> ids, read_token_ids(*tokens, "tokens", services.model.vocab));
  std::string decoded = services.tokenizer->decode(ids, skip_special);
  Json out;
  out["prompt"] = decoded;               // vLLM's name
  out["content"] = std::move(decoded);   // llama.cpp's
  return out;
}

Result<Json> template_answer(const Services& services, const std::string& text) {
  SLIP_TRY(const Json body, parse_body(text));
  SLIP_TRY(const GenerationRequest request, read_common(services, body));
  if (request.messages.is_null()) return invalid_argument("messages is missing", "messages");
  SLIP_TRY(const auto segments, render_chat(services, request));
  SLIP_TRY(const auto ids, services.tokenizer->encode(segments));
  Json out;
  out["prompt"] = joined_text(segments);
  out["token_ids"] = ids;
  out["count"] = ids.size();
  out["segments"] = Json::array();
  for (const PromptSegment& segment : segments)
    out["segments"].push_back({{"text", segment.text}, {"source", segment.trusted ? "template" : "message"}});
  return out;
}

/// The token's text, or null without one.
Json token_text(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0) return nullptr;
  return json_text::replace_invalid_utf8(tokenizer.token_bytes(id));
}

HttpResponse answer(Call& call, Result<Json> (*make)(const Services&, const std::string&)) {
  auto out = make(*call.services, call.http.body);
  if (!out.ok()) return refuse(call, out.error());
  return json_response(*out);
}

}  // namespace

HttpResponse tokenize(Call& call) { return answer(call, tokenize_answer); }
HttpResponse detokenize(Call& call) { return answer(call, detokenize_answer); }
HttpResponse tokenizer_info(Call& call) {
  const Services& services = *call.services;
  const Tokenizer& tokenizer = *services.tokenizer;
  Json out;
  out["tokenizer_class"] = tokenizer.description();
  out["vocab_size"] = tokenizer.vocab_size();
  out["model_max_length"] = services.model.context_length;
  out["bos_token"] = token_text(tokenizer, tokenizer.bos_id());
  out["eos_token"] = token_text(tokenizer, services.model.eos_ids.empty() ? -1 : services.model.eos_ids.front());
  out["pad_token"] = nullptr;
  out["add_bos_token"] = tokenizer.adds_bos();
  out["chat_template"] = services.chat_template ? Json(services.chat_template->source()) : Json(nullptr);
  return json_response(out);
}
HttpResponse apply_template(Call& call) { return answer(call, template_answer); }

}  // namespace slipstream::api
