// See edge.h.
#include "server/edge.h"

#include <vector>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>

#include "engine/base/log.h"
#include "server/api/messages_error.h"
#include "server/api/response_writer.h"
#include "server/build_info.h"
#include "server/cors.h"
#include "server/json_text.h"
#include "server/page/page.h"
#include "server/request_id.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;
using api::ApiError;

constexpr double kStalledSeconds = 10;  // /health/progress says "stalled" after so long without a step

std::string new_request_id() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "req_";
  for (int i = 0; i < 24; ++i) out.push_back(digits[generator() & 15]);
  return out;
}

/// The client's X-Request-Id when it is short and plain, otherwise a new one.
std::string request_id_of(const HttpRequest& request) {
  const std::string_view given = request.header("x-request-id");
  return is_request_id(given) ? std::string(given) : new_request_id();
}

bool is_json_type(std::string_view type) {
  const std::string_view media = type.substr(0, type.find(';'));
  std::string lower(media);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  while (!lower.empty() && lower.back() == ' ') lower.pop_back();
  return lower.empty() || lower == "application/json" || lower.ends_with("+json");
}

ApiError unavailable(ServerState state) {
  switch (state) {
    case ServerState::kLoading:
      return {{ErrorCode::kUnavailable, "the model is being loaded; try again soon", {}}, 503, "loading"};
    case ServerState::kDraining:
      return {{ErrorCode::kUnavailable, "the server is shutting down", {}}, 503, "draining"};
    default: return {{ErrorCode::kUnavailable, "the engine has failed; the server will exit", {}}, 503, "engine_dead"};
  }
}

}  // namespace

struct Edge::Route {
  enum class Kind : uint8_t { kEndpoint, kHealth, kMetrics, kBuild, kPage, kNotServed };
  std::string_view path;         // "/v1/models/" and "/v1/responses/" match by prefix
  std::string_view name;         // in metrics
  bool post = false;
  Kind kind = Kind::kEndpoint;
  HttpResponse (*run)(api::Call&) = nullptr;
  std::string_view alternative;  // kNotServed
  bool deletes = false;          // takes DELETE beside GET
};

const Edge::Route* Edge::find_route(std::string_view path) {
  using K = Route::Kind;
  static const Route routes[] = {
      {"/v1/chat/completions", "chat_completions", true, K::kEndpoint, api::chat_completions, ""},
      {"/chat/completions", "chat_completions", true, K::kEndpoint, api::chat_completions, ""},
      {"/v1/completions", "completions", true, K::kEndpoint, api::completions, ""},
      {"/completions", "completions", true, K::kEndpoint, api::completions, ""},
      {"/v1/responses", "responses", true, K::kEndpoint, api::responses, ""},
      {"/responses", "responses", true, K::kEndpoint, api::responses, ""},
      {"/v1/responses/input_tokens", "response_input_tokens", true, K::kEndpoint, api::response_input_tokens, ""},
      {"/responses/input_tokens", "response_input_tokens", true, K::kEndpoint, api::response_input_tokens, ""},
      {"/v1/messages", "messages", true, K::kEndpoint, api::messages, ""},
      {"/messages", "messages", true, K::kEndpoint, api::messages, ""},
      {"/v1/messages/count_tokens", "count_message_tokens", true, K::kEndpoint, api::count_message_tokens, ""},
      {"/messages/count_tokens", "count_message_tokens", true, K::kEndpoint, api::count_message_tokens, ""},
      {"/v1/models", "models", false, K::kEndpoint, api::models, ""},
      {"/models", "models", false, K::kEndpoint, api::models, ""},
      {"/v1/tokenize", "tokenize", true, K::kEndpoint, api::tokenize, ""},
      {"/tokenize", "tokenize", true, K::kEndpoint, api::tokenize, ""},
      {"/v1/detokenize", "detokenize", true, K::kEndpoint, api::detokenize, ""},
      {"/detokenize", "detokenize", true, K::kEndpoint, api::detokenize, ""},
      {"/tokenizer_info", "tokenizer_info", false, K::kEndpoint, api::tokenizer_info, ""},
      {"/apply-template", "apply_template", true, K::kEndpoint, api::apply_template, ""},
      {"/v1/apply-template", "apply_template", true, K::kEndpoint, api::apply_template, ""},
      {"/v1/chat/completions/render", "apply_template", true, K::kEndpoint, api::apply_template, ""},
      {"/v1/info", "info", false, K::kEndpoint, api::info, ""},
      {"/health", "health", false, K::kHealth, nullptr, ""},
      {"/health/live", "health", false, K::kHealth, nullptr, ""},
      {"/health/ready", "health", false, K::kHealth, nullptr, ""},
      {"/health/progress", "health", false, K::kHealth, nullptr, ""},
      {"/metrics", "metrics", false, K::kMetrics, nullptr, ""},
      {"/", "page", false, K::kPage, nullptr, ""},
      {"/version", "version", false, K::kBuild, nullptr, ""},
      {"/v1/responses/compact", "not_served", true, K::kNotServed, nullptr, "send a shorter conversation as the input"},
      {"/v1/messages/batches", "not_served", true, K::kNotServed, nullptr, "send the requests at once; they are batched"},
      {"/v1/embeddings", "not_served", true, K::kNotServed, nullptr, "run an embedding server beside this one"},
      {"/embeddings", "not_served", true, K::kNotServed, nullptr, "run an embedding server beside this one"},
      {"/v1/audio/transcriptions", "not_served", true, K::kNotServed, nullptr, "only text is served"},
      {"/v1/audio/translations", "not_served", true, K::kNotServed, nullptr, "only text is served"},
      {"/v1/audio/speech", "not_served", true, K::kNotServed, nullptr, "only text is served"},
      {"/v1/images/generations", "not_served", true, K::kNotServed, nullptr, "only text is served"},
      {"/v1/moderations", "not_served", true, K::kNotServed, nullptr, "ask a chat model through /v1/chat/completions"},
      {"/rerank", "not_served", true, K::kNotServed, nullptr, "run a reranking server beside this one"},
      {"/v1/rerank", "not_served", true, K::kNotServed, nullptr, "run a reranking server beside this one"},
      {"/v2/rerank", "not_served", true, K::kNotServed, nullptr, "run a reranking server beside this one"},
      {"/score", "not_served", true, K::kNotServed, nullptr, "run a scoring server beside this one"},
      {"/v1/score", "not_served", true, K::kNotServed, nullptr, "run a scoring server beside this one"},
      {"/completion", "not_served", true, K::kNotServed, nullptr, "use /v1/completions"},
      {"/infill", "not_served", true, K::kNotServed, nullptr, "use /v1/completions with both parts in the prompt"},
      {"/pooling", "not_served", true, K::kNotServed, nullptr, "run an embedding server beside this one"},
      {"/v1/encode", "not_served", true, K::kNotServed, nullptr, "use /tokenize"},
      {"/abort_request", "not_served", true, K::kNotServed, nullptr, "close the connection: that cancels"},
      {"/sleep", "not_served", true, K::kNotServed, nullptr, "stop the process"},
      {"/v1/models/tune", "not_served", true, K::kNotServed, nullptr, "nothing is tuned at run time"},
      {"/generate", "not_served", true, K::kNotServed, nullptr, "use /v1/completions"},
      {"/v1/load_lora_adapter", "not_served", true, K::kNotServed, nullptr, "merge the adapter into the weights"},
      {"/v1/files", "not_served", true, K::kNotServed, nullptr, "put the text into the prompt"},
      {"/v1/batches", "not_served", true, K::kNotServed, nullptr, "send the requests at once; they are batched"},
      {"/v1/fine_tuning/jobs", "not_served", true, K::kNotServed, nullptr, "train elsewhere and serve the result"},
  };
  for (const Route& r : routes)
    if (r.path == path) return &r;
  static const Route one_model{"/v1/models/", "models", false, K::kEndpoint, api::models, ""};
  if ((path.starts_with("/v1/models/") && path.size() > 11) || (path.starts_with("/models/") && path.size() > 8))
    return &one_model;
  return find_stored_route(path);
}

const Edge::Route* Edge::find_stored_route(std::string_view path) {
  using K = Route::Kind;
  static const Route response{"/v1/responses/", "stored_response", false, K::kEndpoint, api::stored_response, "", true};
  static const Route items{"/v1/responses/", "response_input_items", false, K::kEndpoint, api::response_input_items, ""};
  static const Route cancel{"/v1/responses/", "cancel_response", true, K::kEndpoint, api::cancel_response, ""};
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  if (!path.starts_with("/responses/")) return nullptr;
  path.remove_prefix(11);
  const size_t slash = path.find('/');
  if (path.empty() || slash == 0) return nullptr;
  if (slash == std::string_view::npos) return &response;
  const std::string_view rest = path.substr(slash);
  return rest == "/input_items" ? &items : rest == "/cancel" ? &cancel : nullptr;
}

Edge::Edge(ServerConfig config, Auth auth)
    : config_(std::move(config)), auth_(std::move(auth)), started_(static_cast<int64_t>(std::time(nullptr))) {}

void Edge::attach(const Services* services) { services_ = services; }

ServerState Edge::state() const {
  const ServerState own = state_;
  const Services* services = services_;
  if (own != ServerState::kReady || !services) return own;
  switch (services->engine->state()) {
    case EngineState::kDead: return ServerState::kDead;
    case EngineState::kDraining:
    case EngineState::kStopped: return ServerState::kDraining;
    case EngineState::kStarting: return ServerState::kLoading;
    case EngineState::kReady: break;
  }
  return ServerState::kReady;
}

void Edge::set_progress(std::string text) {
  std::lock_guard lock(progress_mutex_);
  progress_ = std::move(text);
}

HttpResponse Edge::filter(const HttpRequest& request) {
  HttpResponse pass;
  pass.status = 0;
  const Auth::Verdict verdict = auth_.judge(request);
  if (verdict.allowed) return pass;
  const std::string id = request_id_of(request);
  auto record = std::make_shared<api::CallRecord>();
  record->error_code = "invalid_api_key";
  HttpResponse response = api::error_for(
      request.path,
      {{ErrorCode::kInvalidArgument,
        verdict.key_given ? "the API key is not valid"
                          : "an API key is needed: send Authorization: Bearer KEY or X-Api-Key: KEY",
        {}},
       401, "invalid_api_key"},
      id);
  return finish(request, std::move(response), id, record, "unauthorized");
}

HttpResponse Edge::handle(const HttpRequest& request, PeerWatch& peer) {
  const std::string id = request_id_of(request);
  auto record = std::make_shared<api::CallRecord>();
  const Route* found = find_route(request.path);
  HttpResponse response = route(request, peer, id, record, found);
  return finish(request, std::move(response), id, record,
                found ? found->name.data() : request.method == "OPTIONS" ? "preflight" : "unknown");
}

HttpResponse Edge::handle_ops(const HttpRequest& request, PeerWatch& peer) {
  const Route* found = find_route(request.path);
  if (found && (found->kind == Route::Kind::kHealth || found->kind == Route::Kind::kMetrics))
    return handle(request, peer);
  const std::string id = request_id_of(request);
  auto record = std::make_shared<api::CallRecord>();
  HttpResponse response = api::error_response(
      {{ErrorCode::kNotFound, "this port serves /health and /metrics only", {}}, 404, "not_found"}, id);
  return finish(request, std::move(response), id, record, "unknown");
}

HttpResponse Edge::route(const HttpRequest& request, PeerWatch& peer, const std::string& request_id,
                         const std::shared_ptr<api::CallRecord>& record, const Route* found) {
  const auto refuse = [&](const ApiError& error) {
    record->error_code = error.code;
    return api::error_for(request.path, error, request_id);
  };
  if (request.method == "OPTIONS") return preflight(request, config_.allowed_origins);
  if (!found || (found->kind == Route::Kind::kPage && !config_.web_page))
    return refuse({{ErrorCode::kNotFound, "there is no such route; see /v1/models, /v1/chat/completions, "
                                          "/v1/completions, /v1/responses, /v1/messages, /tokenize, /health, /metrics", {}},
                   404, "not_found"});
  const bool is_get = request.method == "GET" || request.method == "HEAD" || (found->deletes && request.method == "DELETE");
  if (found->kind == Route::Kind::kNotServed)
    return refuse({{ErrorCode::kUnsupported,
                    std::string(found->path) + " is not served: " + std::string(found->alternative), {}},
                   404, "unsupported_endpoint"});
  if (found->post ? request.method != "POST" : !is_get) {
    HttpResponse response =
        refuse({{ErrorCode::kInvalidArgument, std::string("this route takes ") + (found->post ? "POST" : found->deletes ? "GET or DELETE" : "GET"), {}},
                405, "method_not_allowed"});
    response.headers.emplace_back("Allow", found->post      ? "POST, OPTIONS"
                                            : found->deletes ? "GET, HEAD, DELETE, OPTIONS"
                                                             : "GET, HEAD, OPTIONS");
    return response;
  }
  switch (found->kind) {
    case Route::Kind::kHealth: return health(request.path);
    case Route::Kind::kMetrics: return metrics_page();
    case Route::Kind::kPage: return page();
    case Route::Kind::kBuild: {
      HttpResponse response;
      response.body = "{\"version\":\"" + std::string(kVersion) + "\"}";
      return response;
    }
    default: break;
  }
  if (const ServerState now = state(); now != ServerState::kReady) return refuse(unavailable(now));
  if (found->post && !is_json_type(request.header("content-type")))
    return refuse({{ErrorCode::kInvalidArgument, "the body must be JSON: send Content-Type: application/json", {}},
                   415, "unsupported_media_type"});

  // The limit is below the number of workers: what is left over keeps health and refusals moving. A slot is held until
  // the client has taken its answer, or those who read slowly would be as many as they like.
  std::shared_ptr<void> slot;
  if (found->post) {
    if (active_.fetch_add(1) >= config_.max_streams) {
      --active_;
      return refuse({{ErrorCode::kResourceExhausted, "all " + std::to_string(config_.max_streams) +
                                                         " request slots are busy; try again soon", {}},
                     429, "too_many_requests"});
    }
    slot = std::shared_ptr<void>(nullptr, [this](void*) { --active_; });
  }
  api::Call call{request, peer, services_, metrics_, request_id, auth_.judge(request).key_salt, record};
  HttpResponse response = found->run(call);
  response.held = std::move(slot);
  return response;
}

HttpResponse Edge::finish(const HttpRequest& request, HttpResponse response, const std::string& given_id,
                          const std::shared_ptr<api::CallRecord>& record, const char* route_name) {
  const std::string request_id = record->request_id.empty() ? given_id : record->request_id;
  response.headers.emplace_back("x-request-id", request_id);
  if (api::is_messages_path(request.path)) response.headers.emplace_back("request-id", request_id);  // what its clients read
  add_cors(request, config_.allowed_origins, &response);
  const auto start = request.arrival != Clock::time_point{} ? request.arrival : Clock::now();
  const auto log_line = [this, method = request.method, path = request.path, remote = request.remote, request_id,
                         record, route_name, status = response.status, start] {
    metrics_.count_http(route_name, status);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto level = route_name == std::string_view("health") || route_name == std::string_view("metrics")
                           ? log::Level::kDebug
                           : log::Level::kInfo;
    if (!log::enabled(level)) return;
    const std::string short_path = path.substr(0, 256);
    const bool gone = record->generation && record->client_gone;
    std::vector<log::Field> fields{{"request_id", request_id}, {"remote", remote}, {"method", method},
                                   {"path", short_path}, {"status", gone ? 499 : status}, {"seconds", seconds}};
    const auto add = [&fields](std::initializer_list<log::Field> more) { fields.insert(fields.end(), more); };
    if (record->generation)
      add({{"stream", record->stream}, {"prompt_tokens", record->prompt_tokens},
           {"cached_tokens", record->cached_tokens}, {"completion_tokens", record->completion_tokens},
           {"first_token_seconds", record->first_token_s}, {"finish", record->finish},
           {"seed", std::to_string(record->seed)}});
    add({{"error", record->error_code}});
    if (record->generation && config_.log_requests)
      add({{"n", record->n}, {"max_tokens", record->max_tokens},
           {"temperature", static_cast<double>(record->temperature)}, {"top_p", static_cast<double>(record->top_p)}});
    log::write(level, "access", fields);
  };
  if (!response.stream) {
    log_line();
    return response;
  }
  response.stream = [inner = std::move(response.stream), log_line](BodySink& sink) {
    inner(sink);
    log_line();
  };
  return response;
}

HttpResponse Edge::health(std::string_view path) const {
  const ServerState now = state();
  const Services* services = services_;
  nlohmann::ordered_json out;
  HttpResponse response;
  const char* names[] = {"loading", "ready", "draining", "dead"};
  out["status"] = names[static_cast<int>(now)];
  if (path == "/health/ready" || path == "/health") {
    // /health answers like readiness, as llama.cpp's and vLLM's do while loading; /health/live is the liveness probe
    if (now != ServerState::kReady) response.status = 503;
  } else if (path == "/health/progress") {
    const EngineStats stats = services ? services->engine->stats() : EngineStats{};
    const bool busy = stats.running + stats.waiting > 0;
    const bool stalled = busy && stats.last_step_age_s > kStalledSeconds;
    out["progress"] = stalled ? "stalled" : busy ? "ok" : "idle";
    if (stalled || now == ServerState::kDead) response.status = 503;
  } else if (now == ServerState::kDead) {
    response.status = 503;
  }
  if (now == ServerState::kLoading) {
    std::lock_guard lock(progress_mutex_);
    out["loading"] = progress_;
  }
  if (services) {
    const EngineStats stats = services->engine->stats();
    out["running"] = stats.running;
    out["waiting"] = stats.waiting;
    out["last_step_age_s"] = stats.last_step_age_s;
  }
  out["version"] = kVersion;
  out["uptime_s"] = static_cast<int64_t>(std::time(nullptr)) - started_;
  response.body = api::dump(out);
  if (response.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse Edge::metrics_page() const {
  MetricsSnapshot snapshot;
  std::string model;
  if (const Services* services = services_) {
    snapshot.loaded = true;
    snapshot.engine = services->engine->stats();
    const EngineLimits& bounds = services->engine->limits();
    snapshot.block_tokens = bounds.block_tokens;
    snapshot.cache_dtype = services->model.cache_dtype;
    snapshot.max_num_seqs = bounds.max_num_seqs;
    snapshot.max_batched_tokens = bounds.max_batched_tokens;
    snapshot.prefix_caching = bounds.prefix_caching;
    snapshot.memory = services->model.memory;
    model = services->model.names.front();
  }
  snapshot.ready = state() == ServerState::kReady;
  if (http_stats_) {
    const HttpServerStats stats = http_stats_();
    snapshot.connections = stats.connections;
    snapshot.refused_busy = stats.refused_busy;
    snapshot.timed_out = stats.timed_out;
    snapshot.malformed = stats.malformed;
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.render(config_.metrics_prefix, model, snapshot);
  return response;
}

}  // namespace slipstream
