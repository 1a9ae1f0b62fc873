// What a request must satisfy before it may wait.
#include <algorithm>

#include "config/limits.h"
#include "engine/schedule/scheduler.h"

namespace slipstream {
namespace {

Status check_ids(const std::vector<int32_t>& ids, int32_t vocab, const char* what) {
  for (int32_t id : ids)
    if (id < 0 || id >= vocab)
      return invalid_argument(std::string(what) + " holds token id " + std::to_string(id) +
                                  "; the model has ids 0 to " + std::to_string(vocab - 1),
                              what);
  return Ok{};
}

}  // namespace

Status check_request(const Request& request, const EngineLimits& limits) {
  CHECK(request.output != nullptr, "a request has an output channel");
  const SamplingParams& sampling = request.sampling;
  if (request.prompt.empty()) return invalid_argument("the prompt has no tokens; send at least one", "prompt");
  if (request.n < limits::kN.min || request.n > limits::kN.max)
    return invalid_argument("n is " + std::to_string(request.n) + "; use 1 to " + std::to_string(limits::kN.max), "n");
  if (sampling.max_tokens < 1)
    return invalid_argument("max_tokens is " + std::to_string(sampling.max_tokens) + "; use at least 1", "max_tokens");
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t total = prompt + sampling.max_tokens;
  if (total > limits.context_length)
    return Error{ErrorCode::kContextLength,
                 "the context length is " + std::to_string(limits.context_length) + " tokens, but " +
                     std::to_string(prompt) + " prompt tokens and max_tokens " + std::to_string(sampling.max_tokens) +
                     " need " + std::to_string(total) + "; shorten the prompt or lower max_tokens",
                 "max_tokens"};
  const int64_t needed = (total + limits.draft_block_tokens + limits.block_tokens - 1) / limits.block_tokens;
  if (needed > limits.num_blocks)
    return Error{ErrorCode::kContextLength,
                 "the request needs " + std::to_string(needed) + " cache blocks of " +
                     std::to_string(limits.block_tokens) + " tokens, but the server has " +
                     std::to_string(limits.num_blocks) + "; shorten the prompt or lower max_tokens",
                 "max_tokens"};
  if (sampling.top_logprobs > kMaxTopLogprobs)
    return invalid_argument("top_logprobs is " + std::to_string(sampling.top_logprobs) + "; use 0 to " +
                                std::to_string(kMaxTopLogprobs),
                            "top_logprobs");
  SLIP_RETURN_IF_ERROR(check_ids(request.prompt, limits.vocab, "prompt"));
  SLIP_RETURN_IF_ERROR(check_ids(sampling.stop_ids, limits.vocab, "stop_token_ids"));
  for (const LogitBias& bias : sampling.logit_bias)
    SLIP_RETURN_IF_ERROR(check_ids({bias.token}, limits.vocab, "logit_bias"));
  return Ok{};
}

}  // namespace slipstream
