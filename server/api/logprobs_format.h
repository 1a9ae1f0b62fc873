// Log-probabilities as JSON: the shapes of chat, of the legacy endpoint, and of vLLM's prompt_logprobs.
#pragma once

#include <string>
#include <vector>

#include "server/api/generation.h"

namespace slipstream::api {

/// What an echoed or scored prompt shows of its log-probabilities.
struct ScoredPrompt {
  std::vector<TokenEntry> tokens;  // the first is unscored
  int64_t chars = 0;               // code points of its text: where the output begins
};
/// `scores` holds one entry for each token but the first. `skip_special`: special tokens spell no text.
ScoredPrompt scored_prompt(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& ids,
                           std::vector<TokenLogprob> scores, bool skip_special);

/// {"content": [{token, logprob, bytes, top_logprobs}, …], "refusal": null}
void append_chat_logprobs(std::string& out, const Tokenizer& tokenizer, int32_t top_logprobs,
                          const std::vector<TokenEntry>& tokens);
/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. Behind an echoed prompt: its tokens first.
void append_legacy_logprobs(std::string& out, const Tokenizer& tokenizer, int32_t top_logprobs, const ScoredPrompt* prompt,
                            const std::vector<TokenEntry>& tokens);
/// [null, {"id": {"logprob", "rank", "decoded_token"}, …}, …]: each token and its alternatives. rank is null where the token is
/// none of them.
void append_prompt_logprobs(std::string& out, const Tokenizer& tokenizer, int32_t top_logprobs, const ScoredPrompt& prompt);

}  // namespace slipstream::api
