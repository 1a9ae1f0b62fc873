// Any bytes as a body: the guard must imply that the library accepts, and the schema never leaves its bounds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/limits.h"
#include "server/api/messages_request.h"
#include "server/api/request_schema.h"
#include "server/api/responses_request.h"
#include "server/json_guard.h"

using namespace slipstream;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto body = api::parse_body(text);
  if (check_json(text).ok()) {
    if (!body.ok() && body.error().message != "the body must be a JSON object") std::abort();
  } else if (body.ok()) {
    std::abort();
  }
  if (!body.ok()) return 0;
  api::SchemaContext context;
  context.vocab = 500;
  api::ResponseStore store(1 << 20);
  for (const bool count_only : {false, true}) {
    const auto response = api::read_responses(*body, context, store, "", count_only);
    if (!response.ok() && response.error().message.empty()) std::abort();
    if (response.ok() && response->generation.messages.empty() && !count_only) std::abort();
    const auto message = api::read_messages_body(*body, context, count_only);
    if (!message.ok() && message.error().message.empty()) std::abort();
  }
  for (const api::Endpoint endpoint : {api::kChat, api::kCompletions}) {
    const auto request = api::read_generation(*body, endpoint, context);
    if (!request.ok()) {
      if (request.error().message.empty()) std::abort();
      continue;
    }
    const SamplingParams& s = request->sampling;
    if (!(s.temperature >= 0 && s.temperature <= 2) || !(s.top_p > 0 && s.top_p <= 1) || s.top_k < 0 ||
        request->n < 1 || request->n > limits::kN.max || s.top_logprobs > limits::kTopLogprobs.max ||
        request->stop.size() > static_cast<size_t>(limits::kStopStrings))
      std::abort();
    for (const int32_t id : s.stop_ids)
      if (id < 0 || id >= context.vocab) std::abort();
    for (const LogitBias& bias : s.logit_bias)
      if (bias.token < 0 || bias.token >= context.vocab) std::abort();
  }
  return 0;
}
