// Prompts for texts that a target writes to measure a drafter on: chat, code, sums, lists, rewriting. Knows tokenizer and
// chat template; no model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

namespace slipstream {

/// Different kinds take turns, so that the first few are a fair sample.
std::span<const char* const> drafter_prompt_texts();

/// Ids of at most `count` of the texts: as a user's turn where there is a template, else led by bos where the vocabulary asks
/// for it. A text that the tokenizer or template refuses, that has an id of `vocab` or above or more than `most_tokens`
/// tokens is left out.
std::vector<std::vector<int32_t>> drafter_prompts(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                                                  std::span<const std::string> texts, int32_t vocab, int32_t most_tokens,
                                                  int32_t count);

/// Tokens that a drafter's mask may be: rows of the embedding behind the tokenizer's last id, ids of published drafters, control
/// tokens; all ids of a small vocabulary. At most 512, likely ones first.
std::vector<int32_t> mask_candidates(const Tokenizer& tokenizer, int32_t vocab);

}  // namespace slipstream
