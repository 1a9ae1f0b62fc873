// The JSON of answers and stream chunks of both generation endpoints, written by hand. Knows the shapes of OpenAI's
// objects; no socket, no engine.
#pragma once

#include <string>
#include <vector>

#include "server/api/generation.h"

namespace slipstream::api {

/// What all chunks of one answer have in common.
struct AnswerHead {
  Endpoint endpoint = kChat;
  std::string id;               // "chatcmpl-…" or "cmpl-…"
  std::string model;
  std::string fingerprint;
  int64_t created = 0;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool return_token_ids = false;
  bool include_usage = false, continuous_usage = false;
  int32_t n = 1;                         // choices per prompt
  std::string service_tier;
  std::vector<std::string> echo;         // per prompt; empty: no echo
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// A choice as the non-stream answer shows it: all its pieces together.
struct FinishedChoice {
  std::string text;
  std::vector<TokenEntry> tokens;
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;
  int32_t stop_token = -1;
};

std::string format_answer(const AnswerHead& head, const std::vector<FinishedChoice>& choices, const Usage& usage,
                          const Generation& generation);

// Chunks as JSON texts, without "data: ". `usage` is written where continuous_usage asks for it.
/// The first of a choice: its role (chat), its prompt's text (echo).
std::string format_first_chunk(const AnswerHead& head, int32_t index, const Usage& usage,
                               const std::vector<int32_t>* prompt_ids);
std::string format_text_chunk(const AnswerHead& head, const ChoicePiece& piece, const Usage& usage);
/// An empty delta with the finish reason.
std::string format_finish_chunk(const AnswerHead& head, const ChoicePiece& piece, const Usage& usage);
/// `choices` empty, usage filled.
std::string format_usage_chunk(const AnswerHead& head, const Usage& usage);

}  // namespace slipstream::api
