// See run_generation.h.
#include "server/api/run_generation.h"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <set>

#include "engine/base/log.h"
#include "server/api/generation.h"
#include "server/api/ids.h"
#include "server/api/prompt_scoring.h"
#include "server/build_info.h"
#include "server/request_id.h"
#include "server/sse_stream.h"

namespace slipstream::api {
namespace {

/// Logs an unknown field's name the first time it is seen; the set is bounded, names are cut by the log's escaping.
void note_unknown_field(Metrics& metrics, std::string_view name) {
  metrics.unknown_fields.fetch_add(1, std::memory_order_relaxed);
  static std::mutex mutex;
  static std::set<std::string> seen;
  std::lock_guard lock(mutex);
  if (seen.size() >= 256 || name.size() > 64) return;
  if (seen.insert(std::string(name)).second)
    log::warn("unknown_request_field", {{"field", std::string(name)}, {"treatment", "ignored"}});
}

const char* finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
    case FinishReason::kNone: break;
  }
  return "";
}

/// Into the record and the metrics, once the last byte was handed to the socket.
void record_end(CallRecord& record, Metrics& metrics, const Generation& generation, const GenerationRequest& request,
                FinishReason finish, bool client_gone) {
  const Usage usage = generation.usage();
  record.prompt_tokens = usage.prompt_tokens;
  record.completion_tokens = usage.completion_tokens;
  record.cached_tokens = usage.cached_tokens;
  record.first_token_s = generation.times().first_token_s;
  record.client_gone = client_gone;
  const bool failed = generation.failed() && !client_gone;
  record.finish = client_gone ? "cancelled" : failed ? "error" : finish_name(finish);
  if (failed) record.error_code = generation.error().code.empty() ? "internal_error" : generation.error().code;
  if (client_gone) {
    ++metrics.success_abort;
    ++metrics.client_disconnected;
    return;
  }
  if (failed) {
    ++metrics.success_error;
    return;
  }
  (finish == FinishReason::kLength ? metrics.success_length : metrics.success_stop) += generation.choices();
  metrics.request_prompt_tokens.observe(static_cast<double>(usage.prompt_tokens));
  metrics.request_generation_tokens.observe(static_cast<double>(usage.completion_tokens));
  metrics.request_max_num_generation_tokens.observe(static_cast<double>(generation.longest_choice()));
  metrics.request_params_n.observe(request.n);
  if (request.sampling.max_tokens > 0) metrics.request_params_max_tokens.observe(request.sampling.max_tokens);
  const CallTimes& times = generation.times();
  metrics.e2e_latency.observe(times.total_s);
  if (times.first_token_s >= 0) metrics.time_to_first_token.observe(times.first_token_s);
  for (const double gap : times.gaps_s) metrics.inter_token_latency.observe(gap);
  const int64_t longest = generation.longest_choice();
  if (longest > 1 && times.first_token_s >= 0)
    metrics.time_per_output_token.observe((times.total_s - times.first_token_s) / static_cast<double>(longest - 1));
}

HttpResponse whole_answer(Call& call, const std::shared_ptr<Generation>& generation, AnswerFormat& format,
                          const GenerationRequest& request) {
  std::vector<FinishedChoice> choices(generation->choices());
  std::vector<ChoicePiece> pieces;
  FinishReason finish = FinishReason::kNone;
  bool more = true;
  while (more && !call.peer.gone()) {
    pieces.clear();
    more = generation->next(std::chrono::milliseconds(100), &pieces);
    for (ChoicePiece& piece : pieces) {
      if (piece.finish != FinishReason::kNone) finish = piece.finish;
      format.collect(piece);
      const int32_t index = piece.index;
      choices[index].take(std::move(piece));
    }
  }
  call.peer.on_gone({});
  // the engine may have answered the cancel before this loop looked at the client
  const bool gone = call.peer.gone() && (more || generation->failed());
  record_end(*call.record, call.metrics, *generation, request, finish, gone);
  if (gone) {
    HttpResponse response = format.refusal(client_closed_error(), call.request_id);
    response.close = true;
    return response;
  }
  if (generation->failed()) return refuse(call, generation->error(), &format);
  HttpResponse response;
  response.body = format.whole(choices, *generation);
  return response;
}

HttpResponse streamed_answer(Call& call, const std::shared_ptr<Generation>& generation,
                             std::shared_ptr<AnswerFormat> format, GenerationRequest request) {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would collect the events
  Engine* engine = call.services->engine;
  const std::chrono::seconds keep_alive(call.services->config.server.keep_alive_comment_s);
  response.stream = [generation, format = std::move(format), request = std::move(request), engine, keep_alive,
                     peer = &call.peer, metrics = &call.metrics, record = call.record,
                     request_id = call.request_id](BodySink& sink) {
    const auto outcome = stream_generation(*generation, *format, sink, *peer, [engine] { return engine->stats().steps; },
                                           keep_alive, request_id);
    peer->on_gone({});
    record_end(*record, *metrics, *generation, request, outcome.finish, outcome.client_gone);
  };
  return response;
}

/// A key's cached prefixes are its own: another key, guessing prompts, must not see them by timing.
std::string salt_of(const Call& call, const GenerationRequest& request) {
  return call.key_salt.empty() ? request.cache_salt : call.key_salt + ":" + request.cache_salt;
}

}  // namespace

SchemaContext schema_context(Call& call) {
  SchemaContext out;
  out.vocab = call.services->model.vocab;
  out.defaults = call.services->model.defaults;
  out.unknown_field = [metrics = &call.metrics](std::string_view name) { note_unknown_field(*metrics, name); };
  return out;
}

Status check_model(const Services& services, const std::string& name) {
  const auto& names = services.model.names;
  if (name.empty() || services.config.server.any_model_name ||
      std::find(names.begin(), names.end(), name) != names.end())
    return Ok{};
  Error error = not_found("the requested model is not served here; GET /v1/models lists what is");
  error.param = "model";
  return error;
}

Status check_prompt_bytes(const Services& services, int64_t text_bytes) {
  // A token spells at most longest_token_bytes bytes, so this many tokens are certain.
  const int64_t least = text_bytes / services.longest_token_bytes;
  if (least < services.model.context_length) return Ok{};
  return Error{ErrorCode::kContextLength,
               "This model's maximum context length is " + std::to_string(services.model.context_length) +
                   " tokens. However, the request has at least " + std::to_string(least) +
                   " prompt tokens. Shorten the prompt.",
               ""};
}

HttpResponse refuse(Call& call, const ApiError& error, AnswerFormat* format) {
  ApiError out = error;
  if (out.error.code == ErrorCode::kNotFound && out.error.param == "model") out.code = "model_not_found";
  if (out.error.code == ErrorCode::kContextLength && out.context_tokens < 0 && call.services) {
    out.context_tokens = call.services->model.context_length;
    out.prompt_tokens = out.context_tokens;  // a lower bound; the message says so
  }
  call.record->error_code = out.code;
  return format ? format->refusal(out, call.request_id) : error_for(call.http.path, out, call.request_id);
}

void take_request_id(Call& call, const Json& body) {
  if (call.http.header("x-request-id") == call.request_id) return;
  for (const char* name : {"request_id", "rid"}) {
    const auto it = body.find(name);
    if (it == body.end() || !it->is_string() || !is_request_id(it->get_ref<const std::string&>())) continue;
    call.request_id = call.record->request_id = it->get<std::string>();
    return;
  }
}

AnswerHead answer_head(const Services& services, const GenerationRequest& request, Endpoint endpoint) {
  AnswerHead head;
  head.endpoint = endpoint;
  head.id = random_id(endpoint == kChat ? "chatcmpl-" : "cmpl-");
  head.model = request.model.empty() ? services.model.names.front() : request.model;
  head.fingerprint = services.fingerprint;
  head.created = static_cast<int64_t>(std::time(nullptr));
  head.logprobs = request.sampling.top_logprobs >= 0;
  head.top_logprobs = std::max(request.sampling.top_logprobs, 0);
  head.return_token_ids = request.return_token_ids;
  head.include_usage = request.include_usage;
  head.continuous_usage = request.continuous_usage;
  head.n = request.n;
  head.service_tier = request.service_tier;
  head.calls = !request.tools.is_null();
  head.show_reasoning = request.show_reasoning;
  head.stream_reasoning = request.stream_reasoning;
  head.tokenizer = services.tokenizer;
  return head;
}

std::optional<ApiError> score(Call& call, const GenerationRequest& request, const std::vector<std::vector<int32_t>>& prompts,
                              AnswerHead* head) {
  head->prompt_logprobs = request.prompt_logprobs;
  if (request.prompt_logprobs < 0 && !head->echo_logprobs) return std::nullopt;
  for (const auto& prompt : prompts)  // submit refuses these, with their numbers
    if (prompt.empty() || static_cast<int64_t>(prompt.size()) >= call.services->model.context_length) return std::nullopt;
  const int32_t top = std::max(request.prompt_logprobs, head->echo_logprobs ? head->top_logprobs : 0);
  GenerationRequest salted;
  salted.priority = request.priority;
  salted.cache_salt = salt_of(call, request);
  auto scores = score_prompts(*call.services, salted, prompts, top, head->id, call.peer);
  if (auto* error = std::get_if<ApiError>(&scores)) return *error;
  auto& lists = std::get<std::vector<PromptScores>>(scores);
  for (size_t i = 0; i < prompts.size(); ++i)
    head->prompts.push_back(scored_prompt(call.services->tokenizer, prompts[i], std::move(lists[i]), request.skip_special));
  return std::nullopt;
}

HttpResponse run_generation(Call& call, GenerationRequest request, const std::string& id,
                            std::shared_ptr<AnswerFormat> format, std::vector<std::vector<int32_t>> prompts) {
  const Services& services = *call.services;
  request.cache_salt = salt_of(call, request);

  auto submitted = Generation::submit(services, request, std::move(prompts), id);
  if (auto* error = std::get_if<ApiError>(&submitted)) return refuse(call, *error, format.get());
  const std::shared_ptr<Generation> generation = std::move(std::get<std::unique_ptr<Generation>>(submitted));
  CallRecord& record = *call.record;
  record.generation = true;
  record.stream = request.stream;
  record.n = request.n;
  record.max_tokens = request.sampling.max_tokens;
  record.temperature = request.sampling.temperature;
  record.top_p = request.sampling.top_p;
  record.seed = generation->seed();
  record.prompt_tokens = generation->usage().prompt_tokens;
  call.peer.on_gone([weak = std::weak_ptr<Generation>(generation)] {
    if (const auto alive = weak.lock()) alive->cancel();
  });
  if (request.stream) return streamed_answer(call, generation, std::move(format), std::move(request));
  return whole_answer(call, generation, *format, request);
}

}  // namespace slipstream::api
