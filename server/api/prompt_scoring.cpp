// See prompt_scoring.h.
#include "server/api/prompt_scoring.h"

#include <chrono>

#include "config/limits.h"
#include "engine/sample/forced_tokens.h"
#include "server/api/generation.h"

namespace slipstream::api {
namespace {

using Clock = std::chrono::steady_clock;

/// Submitted requests that are cancelled unless all of them came to their end.
struct Scoring {
  std::vector<std::shared_ptr<Request>> requests;  // null: a prompt of one token has nothing to score
  ~Scoring() {
    for (const auto& request : requests)
      if (request) request->cancelled.store(true, std::memory_order_release);
  }
};

std::shared_ptr<Request> scoring_request(const GenerationRequest& call, const std::vector<int32_t>& prompt, int32_t top,
                                         const std::string& id, Clock::time_point deadline) {
  auto out = std::make_shared<Request>();
  out->id = id;
  out->prompt = {prompt.front()};
  out->sampling.temperature = 0;
  out->sampling.top_logprobs = top;
  out->sampling.max_tokens = static_cast<int32_t>(prompt.size()) - 1;
  out->constraint = std::make_shared<ForcedTokens>(std::vector<int32_t>(prompt.begin() + 1, prompt.end()));
  out->priority = call.priority;
  out->cache_salt = call.cache_salt;
  out->arrival = Clock::now();
  out->deadline = deadline;
  out->output = std::make_shared<OutputChannel>(prompt.size() + 2);  // an event a token at most: it cannot overflow
  return out;
}

/// Appends until the request's end. False when the client has gone.
std::variant<bool, ApiError> collect(Request& request, const PeerWatch& peer, PromptScores* scores) {
  while (!peer.gone()) {
    auto event = request.output->pop(std::chrono::milliseconds(100));
    if (!event) {
      if (Clock::now() > request.deadline) return deadline_error();
      continue;
    }
    for (TokenLogprob& one : event->logprobs) scores->push_back(std::move(one));
    if (event->finish == FinishReason::kError) return engine_error(*event);
    if (event->finish != FinishReason::kNone) return true;
  }
  return false;
}

}  // namespace

std::variant<std::vector<PromptScores>, ApiError> score_prompts(const Services& services, const GenerationRequest& request,
                                                                const std::vector<std::vector<int32_t>>& prompts, int32_t top,
                                                                const std::string& id, const PeerWatch& peer) {
  int64_t entries = 0;
  for (const auto& prompt : prompts) entries += static_cast<int64_t>(prompt.size()) * (1 + top);
  if (entries > limits::kLogprobEntriesPerRequest)
    return ApiError(invalid_argument("the prompts' log-probabilities are " + std::to_string(entries) + " entries; the limit is " +
                                         std::to_string(limits::kLogprobEntriesPerRequest) + " a request: ask for fewer alternatives",
                                     "prompt"));
  const auto deadline = Clock::now() + std::chrono::seconds(services.config.server.request_timeout_s);
  Scoring running;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].size() < 2) {
      running.requests.push_back(nullptr);
      continue;
    }
    auto one = scoring_request(request, prompts[i], top, id + "-prompt-" + std::to_string(i), deadline);
    if (Status status = services.engine->submit(one); !status.ok()) return ApiError(status.error());
    running.requests.push_back(std::move(one));
  }
  std::vector<PromptScores> out(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!running.requests[i]) continue;
    auto end = collect(*running.requests[i], peer, &out[i]);
    if (auto* error = std::get_if<ApiError>(&end)) return *error;
    if (!std::get<bool>(end)) return client_closed_error();
    if (out[i].size() + 1 != prompts[i].size())
      return ApiError(Error{ErrorCode::kInternal, "the prompt's log-probabilities are incomplete", {}});
  }
  running.requests.clear();
  return out;
}

}  // namespace slipstream::api
