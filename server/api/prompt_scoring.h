// Log-probabilities of a prompt's own tokens, for prompt_logprobs and for echo with logprobs: the engine generates the prompt
// from its first token under a constraint that leaves no other text, so that the usual path gives its numbers. Knows no JSON.
#pragma once

#include <variant>
#include <vector>

#include "server/api/request_schema.h"
#include "server/api/response_writer.h"
#include "server/http_message.h"
#include "server/services.h"

namespace slipstream::api {

/// Of one prompt: entry i is of token i + 1, given the tokens before it. The first token has none.
using PromptScores = std::vector<TokenLogprob>;

/// Waits until all prompts are scored, with `top` alternatives a token. Salt, priority and deadline are the request's. The
/// generation that follows finds the prompt in the prefix cache. `id` as the log shall call it.
std::variant<std::vector<PromptScores>, ApiError> score_prompts(const Services& services, const GenerationRequest& request,
                                                                const std::vector<std::vector<int32_t>>& prompts, int32_t top,
                                                                const std::string& id, const PeerWatch& peer);

}  // namespace slipstream::api
