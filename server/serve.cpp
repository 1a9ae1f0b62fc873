// See serve.h.
#include "server/serve.h"

#include <csignal>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>

#include "engine/base/log.h"
#include "server/api/response_writer.h"
#include "server/build_info.h"
#include "server/edge.h"
#include "server/http_server.h"

namespace slipstream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kReserveWorkers = 8;          // beside the streams: health, refusals, short requests
constexpr seconds kFatalGrace{1};           // for terminal events to reach the clients before a fatal exit
constexpr seconds kStopGrace{2};            // for handlers to write their last bytes after the engine has drained

/// SIGTERM and SIGINT arrive only through next(); every thread made after this object has them blocked.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  /// The next signal, or 0 after `wait`.
  int next(milliseconds wait) {
    timespec time{};
    time.tv_sec = wait.count() / 1000;
    time.tv_nsec = (wait.count() % 1000) * 1'000'000;
    const int signal = sigtimedwait(&set_, nullptr, &time);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_;
};

/// Set by the engine's fatal hook, on whatever thread that is.
struct Fatal {
  std::atomic<int> code{0};
  std::mutex mutex;
  std::string reason;
};

void raise_file_limit(int connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(connections) + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted)
    log::warn("file_limit", {{"limit", static_cast<int64_t>(limit.rlim_cur)}, {"wanted", static_cast<int64_t>(wanted)}});
}

EngineHooks make_hooks(Metrics& metrics, Fatal& fatal) {
  EngineHooks hooks;
  hooks.step_done = [&metrics](const StepPlan& plan, const StepResult&, double) {
    metrics.iteration_tokens.observe(plan.total_rows);
  };
  hooks.request_done = [&metrics](const Request&, const RequestTimes& times, FinishReason reason) {
    metrics.queue_time.observe(times.queue_s);
    metrics.num_preemptions.observe(times.preemptions);
    if (reason != FinishReason::kStop && reason != FinishReason::kLength) return;
    metrics.prefill_time.observe(times.prefill_s);
    metrics.decode_time.observe(times.decode_s);
    metrics.inference_time.observe(times.prefill_s + times.decode_s);
  };
  hooks.fatal = [&fatal](int code, const std::string& reason) {
    {
      std::lock_guard lock(fatal.mutex);
      fatal.reason = reason;
    }
    fatal.code = code;
  };
  return hooks;
}

void print_ready(const Config& config, int port, const Services& services, double load_seconds) {
  const GenerationDefaults& d = services.model.defaults;
  log::info("sampling_defaults",
            {{"source", d.source.empty() ? "built in" : d.source},
             {"temperature", d.temperature >= 0 ? static_cast<double>(d.temperature) : 1.0},
             {"top_p", d.top_p > 0 ? static_cast<double>(d.top_p) : 1.0},
             {"top_k", d.top_k >= 0 ? d.top_k : 0},
             {"min_p", d.min_p >= 0 ? static_cast<double>(d.min_p) : 0.0},
             {"repetition_penalty", d.repetition_penalty > 0 ? static_cast<double>(d.repetition_penalty) : 1.0}});
  log::info("ready", {{"url", "http://" + config.server.host + ":" + std::to_string(port)},
                      {"model", services.model.names.front()},
                      {"context", services.model.context_length},
                      {"sequences", services.engine->limits().max_num_seqs},
                      {"cache_tokens", static_cast<int64_t>(services.engine->limits().num_blocks) *
                                           services.engine->limits().block_tokens},
                      {"chat_template", services.chat_template != nullptr},
                      {"load_seconds", load_seconds},
                      {"version", std::string(kVersion)}});
}

/// The two listeners over one edge.
class Listeners {
 public:
  Listeners(const Config& config, Edge& edge)
      : main_(options(config.server.host, config.server.port, config.server.max_streams + kReserveWorkers,
                      config.server.max_connections)),
        ops_(options(config.server.ops_host, config.server.ops_port, 4, 128)),
        with_ops_(config.server.ops_port > 0) {
    main_.handler = [&edge](const HttpRequest& request, PeerWatch& peer) { return edge.handle(request, peer); };
    main_.filter = ops_.filter = [&edge](const HttpRequest& request) { return edge.filter(request); };
    ops_.handler = [&edge](const HttpRequest& request, PeerWatch& peer) { return edge.handle_ops(request, peer); };
  }

  Status bind() {
    main_server_ = std::make_unique<HttpServer>(main_);
    SLIP_RETURN_IF_ERROR(main_server_->bind());
    if (!with_ops_) return Ok{};
    ops_server_ = std::make_unique<HttpServer>(ops_);
    return ops_server_->bind();
  }
  Status start() {
    SLIP_RETURN_IF_ERROR(main_server_->start());
    return ops_server_ ? ops_server_->start() : Status(Ok{});
  }
  /// Ops last, so that probes see the drain to its end.
  void stop(milliseconds grace) {
    main_server_->stop(grace);
    if (ops_server_) ops_server_->stop(milliseconds(100));
  }
  HttpServer& main() { return *main_server_; }

 private:
  static HttpServerOptions options(const std::string& host, int port, int workers, int connections) {
    HttpServerOptions out;
    out.host = host;
    out.port = port;
    out.workers = workers;
    out.max_connections = connections;
    out.error_page = api::connection_error;
    return out;
  }

  HttpServerOptions main_, ops_;
  bool with_ops_;
  std::unique_ptr<HttpServer> main_server_, ops_server_;
};

[[noreturn]] void exit_now(int code, const char* event, const std::string& reason) {
  log::error(event, {{"exit_code", code}, {"reason", reason}});
  std::fflush(nullptr);
  _exit(code);  // threads may be stuck: no destructor may be waited for
}

[[noreturn]] void exit_without_thread(const char* what, const char* why) {
  exit_now(kExitCannotBind, "cannot_start", std::string("no thread for ") + what + ": " + why +
                                                "; raise the limits on threads (ulimit -u) and on memory");
}

/// What starts threads: a system that has none for us ends the program with one line instead of an abort.
template <typename Start>
void start_or_exit(const char* what, Start start) {
  try {
    start();
  } catch (const std::system_error& error) {
    exit_without_thread(what, error.what());
  }
}

/// One loading in its own thread, so that signals are seen meanwhile.
struct Loading {
  std::unique_ptr<Loaded> loaded;
  std::string error;
  std::atomic<bool> done{false};
  double seconds = 0;
  std::thread thread;
};

}  // namespace

int run_server(const Config& config, const Loader& loader) {
  Signals signals;
  raise_file_limit(config.server.max_connections);
  for (const std::string& warning : config.warnings) log::warn("config", {{"warning", warning}});
  auto auth = Auth::create(config.server.api_keys, config.server.api_key_file, config.server.metrics_api_key);
  if (!auth.ok()) {
    log::error("bad_config", {{"reason", auth.error().message}});
    return kExitBadConfig;
  }
  Edge edge(config.server, std::move(*auth));
  Fatal fatal;
  Loading loading;
  // after everything that handlers use: destroyed, and so stopped, before it
  Listeners listeners(config, edge);
  if (auto bound = listeners.bind(); !bound.ok()) {
    log::error("cannot_bind", {{"reason", bound.error().message}});
    return kExitCannotBind;
  }
  edge.set_http_stats([&listeners] { return listeners.main().stats(); });
  if (auto started = listeners.start(); !started.ok()) {
    log::error("cannot_start", {{"reason", started.error().message}});
    return kExitCannotBind;
  }
  log::info("listening", {{"host", config.server.host}, {"port", listeners.main().port()},
                          {"ops_port", config.server.ops_port}, {"version", std::string(kVersion)}});

  const auto load = [&] {
    const auto start = std::chrono::steady_clock::now();
    try {
      auto result = loader(config, make_hooks(edge.metrics(), fatal),
                           [&edge](std::string text) { edge.set_progress(std::move(text)); });
      if (result.ok())
        loading.loaded = std::move(*result);
      else
        loading.error = result.error().message;
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) exit_without_thread("loading", error.what());
      loading.error = std::string("loading failed: ") + error.what();
    } catch (const std::exception& error) {
      loading.error = std::string("loading failed: ") + error.what();  // memory refused, an unknown instruction set
    }
    loading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    loading.done = true;
  };
  start_or_exit("loading", [&] { loading.thread = std::thread(load); });
  while (!loading.done) {
    if (const int signal = signals.next(milliseconds(5)); signal != 0) {
      log::info("stopped_while_loading", {{"signal", signal}});
      std::fflush(nullptr);
      _exit(kExitDrained);  // nothing was accepted, so nothing is lost; the load cannot be interrupted
    }
  }
  loading.thread.join();
  if (!loading.loaded) {
    log::error("cannot_load", {{"reason", loading.error}});
    listeners.stop(milliseconds(100));
    return kExitBadConfig;
  }

  Loaded& loaded = *loading.loaded;
  loaded.services.engine = loaded.engine.get();
  loaded.services.config = config;
  complete(&loaded.services);
  start_or_exit("the engine", [&] { loaded.engine->start(); });
  edge.attach(&loaded.services);
  edge.set_state(ServerState::kReady);
  print_ready(config, listeners.main().port(), loaded.services, loading.seconds);

  const auto check_fatal = [&] {
    const int code = fatal.code;
    if (code == 0) return;
    edge.set_state(ServerState::kDead);
    const auto deadline = std::chrono::steady_clock::now() + kFatalGrace;
    while (edge.active_streams() > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(10));
    std::lock_guard lock(fatal.mutex);
    exit_now(code, "fatal", fatal.reason);
  };

  int signal = 0;
  while ((signal = signals.next(milliseconds(100))) == 0) check_fatal();

  edge.set_state(ServerState::kDraining);  // readiness first: new work is refused from here on
  log::info("draining", {{"signal", signal}, {"timeout_s", config.server.shutdown_timeout_s},
                         {"running", loaded.engine->stats().running}, {"waiting", loaded.engine->stats().waiting}});
  std::atomic<bool> drained{false};
  std::atomic<bool> clean{false};
  std::thread drainer;
  start_or_exit("draining", [&] {
    drainer = std::thread([&] {
      clean = loaded.engine->drain(seconds(config.server.shutdown_timeout_s));
      drained = true;
    });
  });
  while (!drained) {
    if (signals.next(milliseconds(20)) != 0) exit_now(kExitForced, "forced", "a second signal");
    check_fatal();
  }
  drainer.join();
  // handlers still write what the engine gave them
  const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
  while (edge.active_streams() > 0 && std::chrono::steady_clock::now() < deadline)
    if (signals.next(milliseconds(10)) != 0) exit_now(kExitForced, "forced", "a second signal");
  listeners.stop(milliseconds(200));
  loaded.engine->stop();
  log::info("drained", {{"complete", clean.load()}});
  return kExitDrained;
}

}  // namespace slipstream
