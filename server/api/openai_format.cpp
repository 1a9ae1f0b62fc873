// See openai_format.h.
#include "server/api/openai_format.h"

#include "server/api/logprobs_format.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

using json_text::append_int;
using json_text::append_string;

/// A choice that ended by itself and has called, has ended to be called back. One that a stop string cut has not.
const char* finish_text(FinishReason reason, bool called, const std::string& stop_string) {
  return reason == FinishReason::kLength ? "\"length\"" : called && stop_string.empty() ? "\"tool_calls\"" : "\"stop\"";
}

void append_reasoning(std::string& out, const std::string& text) {
  const std::string quoted = json_text::quoted(text);
  out += "\"reasoning_content\":" + quoted + ",\"reasoning\":" + quoted;
}

/// {"id":…,"type":"function","function":{"name":…,"arguments":…}}, without the bracket in front.
void append_call(std::string& out, const std::string& id, const std::string& name, const std::string& arguments) {
  out += "\"id\":";
  append_string(out, id);
  out += ",\"type\":\"function\",\"function\":{\"name\":";
  append_string(out, name);
  out += ",\"arguments\":";
  append_string(out, arguments);
  out += "}}";
}

void append_message(std::string& out, const AnswerHead& head, const FinishedChoice& choice) {
  out += "{\"role\":\"assistant\",\"content\":";
  if (choice.content.empty() && !choice.calls.empty())
    out += "null";
  else
    append_string(out, choice.content);
  out += ",\"refusal\":null";
  if (head.show_reasoning && !choice.reasoning.empty()) {
    out.push_back(',');
    append_reasoning(out, choice.reasoning);
  }
  if (!choice.calls.empty()) {
    out += ",\"tool_calls\":[";
    for (size_t i = 0; i < choice.calls.size(); ++i) {
      out += i ? ",{" : "{";
      append_call(out, choice.calls[i].id, choice.calls[i].name, choice.calls[i].arguments);
    }
    out.push_back(']');
  }
  out.push_back('}');
}

void append_usage(std::string& out, const Usage& usage) {
  out += "{\"prompt_tokens\":";
  append_int(out, usage.prompt_tokens);
  out += ",\"completion_tokens\":";
  append_int(out, usage.completion_tokens);
  out += ",\"total_tokens\":";
  append_int(out, usage.prompt_tokens + usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_int(out, usage.cached_tokens);
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":";
  append_int(out, usage.reasoning_tokens);
  out += ",\"accepted_prediction_tokens\":";
  append_int(out, usage.accepted_draft_tokens);
  out += ",\"rejected_prediction_tokens\":";
  append_int(out, usage.rejected_draft_tokens);
  out += "}}";
}

/// `prompt`: of a legacy answer that echoes it; may be null.
void append_logprobs(std::string& out, const AnswerHead& head, const ScoredPrompt* prompt, const std::vector<TokenEntry>& tokens) {
  out += ",\"logprobs\":";
  if (!head.logprobs)
    out += "null";
  else if (head.endpoint == kChat)
    append_chat_logprobs(out, *head.tokenizer, head.top_logprobs, tokens);
  else
    append_legacy_logprobs(out, *head.tokenizer, head.top_logprobs, prompt, tokens);
}

void append_ids(std::string& out, const std::vector<int32_t>& ids) {
  out.push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i) out.push_back(',');
    append_int(out, ids[i]);
  }
  out.push_back(']');
}

void append_token_ids(std::string& out, const AnswerHead& head, const std::vector<TokenEntry>& tokens) {
  if (!head.return_token_ids) return;
  std::vector<int32_t> ids;
  for (const TokenEntry& token : tokens) ids.push_back(token.id);
  out += ",\"token_ids\":";
  append_ids(out, ids);
}

void append_stop_reason(std::string& out, const std::string& stop_string, int32_t stop_token) {
  out += ",\"stop_reason\":";
  if (!stop_string.empty())
    append_string(out, stop_string);
  else if (stop_token >= 0)
    append_int(out, stop_token);
  else
    out += "null";
}

/// {"id":…,"model":… up to and including the key before `choices`' value.
std::string opening(const AnswerHead& head, const char* object) {
  std::string out = "{\"id\":";
  append_string(out, head.id);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":";
  append_int(out, head.created);
  out += ",\"model\":";
  append_string(out, head.model);
  out += ",\"system_fingerprint\":";
  append_string(out, head.fingerprint);
  if (!head.service_tier.empty()) {
    out += ",\"service_tier\":";
    append_string(out, head.service_tier == "auto" ? "default" : head.service_tier);
  }
  out += ",\"choices\":";
  return out;
}

std::string chunk_opening(const AnswerHead& head) {
  return opening(head, head.endpoint == kChat ? "chat.completion.chunk" : "text_completion");
}

void append_chunk_end(std::string& out, const AnswerHead& head, const Usage& usage) {
  if (head.continuous_usage) {
    out += ",\"usage\":";
    append_usage(out, usage);
  } else if (head.include_usage) {
    out += ",\"usage\":null";
  }
  out.push_back('}');
}

}  // namespace

OpenAiFormat::OpenAiFormat(AnswerHead head) : head_(std::move(head)) {}

std::string OpenAiFormat::whole(const std::vector<FinishedChoice>& choices, const Generation& generation) {
  std::string out = opening(head_, head_.endpoint == kChat ? "chat.completion" : "text_completion");
  out.push_back('[');
  for (size_t i = 0; i < choices.size(); ++i) {
    const FinishedChoice& choice = choices[i];
    if (i) out.push_back(',');
    out += "{\"index\":";
    append_int(out, static_cast<int64_t>(i));
    if (head_.endpoint == kChat) {
      out += ",\"message\":";
      append_message(out, head_, choice);
    } else {
      out += ",\"text\":";
      append_string(out, (head_.echo.empty() ? "" : head_.echo[i / head_.n]) + choice.content);
    }
    const size_t prompt = i / static_cast<size_t>(head_.n);
    append_logprobs(out, head_, head_.echo_logprobs ? &head_.prompts[prompt] : nullptr, choice.tokens);
    out += ",\"finish_reason\":";
    out += finish_text(choice.finish, !choice.calls.empty(), choice.stop_string);
    append_stop_reason(out, choice.stop_string, choice.stop_token);
    append_token_ids(out, head_, choice.tokens);
    if (head_.return_token_ids && head_.endpoint == kCompletions) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, generation.prompt(static_cast<int32_t>(i) / head_.n));
    }
    if (head_.prompt_logprobs >= 0 && head_.endpoint == kCompletions) {
      out += ",\"prompt_logprobs\":";
      append_prompt_logprobs(out, *head_.tokenizer, head_.prompt_logprobs, head_.prompts[prompt]);
    }
    out.push_back('}');
  }
  out += "],\"usage\":";
  append_usage(out, generation.usage());
  if (head_.return_token_ids && head_.endpoint == kChat) {
    out += ",\"prompt_token_ids\":";
    append_ids(out, generation.prompt(0));
  }
  if (head_.prompt_logprobs >= 0 && head_.endpoint == kChat) {
    out += ",\"prompt_logprobs\":";
    append_prompt_logprobs(out, *head_.tokenizer, head_.prompt_logprobs, head_.prompts[0]);
  }
  out.push_back('}');
  return out;
}

void OpenAiFormat::begin(const Generation& generation, std::string*) {
  begun_.assign(static_cast<size_t>(generation.choices()), false);
  thoughts_.assign(begun_.size(), {});
}

void OpenAiFormat::piece(const ChoicePiece& piece, const Generation& generation, std::string* out) {
  const Usage usage = head_.continuous_usage ? generation.usage() : Usage{};
  if (!begun_[piece.index]) {
    begun_[piece.index] = true;
    const bool with_ids = head_.return_token_ids && piece.index % head_.n == 0;
    // completions have no role: their first chunk exists only to carry an echo or the prompt's ids
    if (head_.endpoint == kChat || !head_.echo.empty() || head_.return_token_ids)
      append_data_event(out, first_chunk(piece.index, usage, with_ids ? &generation.prompt(piece.index / head_.n) : nullptr));
  }
  // without log-probabilities or ids a chunk without text says nothing
  const std::string delta = head_.endpoint == kChat ? delta_members(piece) : std::string();
  const bool text = head_.endpoint == kChat ? !delta.empty() : !piece.parts.empty();
  if (text || (!piece.tokens.empty() && (head_.logprobs || head_.return_token_ids)))
    append_data_event(out, parts_chunk(piece, delta, usage));
  if (piece.finish != FinishReason::kNone) append_data_event(out, finish_chunk(piece, usage));
}

void OpenAiFormat::end(const Generation& generation, std::string* out) {
  if (head_.include_usage) append_data_event(out, usage_chunk(generation.usage()));
  append_data_event(out, "[DONE]");
}

void OpenAiFormat::fail(const ApiError& error, const std::string& request_id, std::string* out) {
  append_data_event(out, error_body(error, request_id));
  append_data_event(out, "[DONE]");
}

std::string OpenAiFormat::first_chunk(int32_t index, const Usage& usage, const std::vector<int32_t>* prompt_ids) const {
  std::string out = chunk_opening(head_);
  out += "[{\"index\":";
  append_int(out, index);
  if (head_.endpoint == kChat) {
    // whether there will be content is not known yet where a call may come instead
    out += head_.calls ? ",\"delta\":{\"role\":\"assistant\",\"content\":null}" : ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}";
    out += ",\"logprobs\":null,\"finish_reason\":null}]";
  } else {
    out += ",\"text\":";
    append_string(out, head_.echo.empty() ? "" : head_.echo[index / head_.n]);
    if (head_.echo_logprobs)
      append_logprobs(out, head_, &head_.prompts[static_cast<size_t>(index / head_.n)], {});
    else
      out += ",\"logprobs\":null";
    out += ",\"finish_reason\":null}]";
  }
  if (prompt_ids) {
    out += ",\"prompt_token_ids\":";
    append_ids(out, *prompt_ids);
  }
  append_chunk_end(out, head_, usage);
  return out;
}

std::string OpenAiFormat::delta_members(const ChoicePiece& piece) {
  std::string content, calls;
  std::string& thoughts = thoughts_[piece.index];
  bool other = piece.finish != FinishReason::kNone;
  for (const AnswerPart& part : piece.parts) {
    other = other || part.kind != PartKind::kReasoning;
    if (part.kind == PartKind::kContent) content += part.text;
    if (part.kind == PartKind::kReasoning && head_.show_reasoning) thoughts += part.text;
    if (part.kind != PartKind::kCallStart && part.kind != PartKind::kCallArguments) continue;
    calls += calls.empty() ? "{\"index\":" : ",{\"index\":";
    append_int(calls, part.call);
    calls.push_back(',');
    if (part.kind == PartKind::kCallStart) {
      append_call(calls, part.call_id, part.text, "");
      continue;
    }
    calls += "\"function\":{\"arguments\":";
    append_string(calls, part.text);
    calls += "}}";
  }
  std::string out;
  if (!thoughts.empty() && (head_.stream_reasoning || other)) {
    append_reasoning(out, thoughts);
    thoughts.clear();
  }
  if (!content.empty()) out += (out.empty() ? "\"content\":" : ",\"content\":") + json_text::quoted(content);
  if (!calls.empty()) out += (out.empty() ? "\"tool_calls\":[" : ",\"tool_calls\":[") + calls + "]";
  return out;
}

std::string OpenAiFormat::parts_chunk(const ChoicePiece& piece, const std::string& delta, const Usage& usage) const {
  std::string out = chunk_opening(head_);
  out += "[{\"index\":";
  append_int(out, piece.index);
  if (head_.endpoint == kChat) {
    out += ",\"delta\":{" + delta + "}";
  } else {
    out += ",\"text\":";
    std::string text;
    for (const AnswerPart& part : piece.parts) text += part.text;
    append_string(out, text);
  }
  append_logprobs(out, head_, nullptr, piece.tokens);
  out += ",\"finish_reason\":null";
  append_token_ids(out, head_, piece.tokens);
  out += "}]";
  append_chunk_end(out, head_, usage);
  return out;
}

std::string OpenAiFormat::finish_chunk(const ChoicePiece& piece, const Usage& usage) const {
  std::string out = chunk_opening(head_);
  out += "[{\"index\":";
  append_int(out, piece.index);
  out += head_.endpoint == kChat ? ",\"delta\":{}" : ",\"text\":\"\"";
  out += ",\"logprobs\":null,\"finish_reason\":";
  out += finish_text(piece.finish, piece.called, piece.stop_string);
  append_stop_reason(out, piece.stop_string, piece.stop_token);
  out += "}]";
  append_chunk_end(out, head_, usage);
  return out;
}

std::string OpenAiFormat::usage_chunk(const Usage& usage) const {
  std::string out = chunk_opening(head_);
  out += "[],\"usage\":";
  append_usage(out, usage);
  out.push_back('}');
  return out;
}

}  // namespace slipstream::api
