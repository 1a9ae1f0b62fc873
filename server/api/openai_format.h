// The answers and chunks of /v1/chat/completions and /v1/completions, written by hand. The stream's grammar, to the letter: per
// choice one first chunk (role), chunks of parts, one finish chunk with an empty delta; then one usage chunk when asked for;
// then data: [DONE]. An error is a data event with a top-level `error`, then [DONE].
#pragma once

#include <string>
#include <vector>

#include "server/api/answer_format.h"
#include "server/api/logprobs_format.h"

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
  bool calls = false;                    // tools were offered
  bool show_reasoning = true, stream_reasoning = true;
  std::vector<std::string> echo;         // per prompt; empty: no echo
  std::vector<ScoredPrompt> prompts;     // per prompt; empty: not scored
  int32_t prompt_logprobs = -1;          // >= 0: show `prompts` in a field of their own, with so many alternatives
  bool echo_logprobs = false;            // show them before the output's
  std::shared_ptr<const Tokenizer> tokenizer;
};

class OpenAiFormat : public AnswerFormat {
 public:
  explicit OpenAiFormat(AnswerHead head);

  std::string whole(const std::vector<FinishedChoice>& choices, const Generation& generation) override;
  void begin(const Generation& generation, std::string* out) override;
  void piece(const ChoicePiece& piece, const Generation& generation, std::string* out) override;
  void end(const Generation& generation, std::string* out) override;
  void fail(const ApiError& error, const std::string& request_id, std::string* out) override;

 private:
  /// The first chunk of a choice: its role (chat), its prompt's text (echo), its prompt's ids.
  std::string first_chunk(int32_t index, const Usage& usage, const std::vector<int32_t>* prompt_ids) const;
  /// `delta`: what the piece brought for the reader, as delta_members gives it.
  std::string parts_chunk(const ChoicePiece& piece, const std::string& delta, const Usage& usage) const;
  /// The members of a piece's delta, or "" when there is nothing to show; thoughts that may not be streamed are kept.
  std::string delta_members(const ChoicePiece& piece);
  /// An empty delta with the finish reason.
  std::string finish_chunk(const ChoicePiece& piece, const Usage& usage) const;
  /// `choices` empty, usage filled.
  std::string usage_chunk(const Usage& usage) const;

  const AnswerHead head_;
  std::vector<bool> begun_;                 // per choice
  std::vector<std::string> thoughts_;       // per choice: kept until they have ended
};

}  // namespace slipstream::api
