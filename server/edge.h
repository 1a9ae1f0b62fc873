// Everything between a parsed HTTP request and an endpoint: request id, key, CORS, routes and methods, readiness, the
// stream limit, the access line. One object for both listeners. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "config/config.h"
#include "server/api/call.h"
#include "server/auth.h"
#include "server/http_message.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/services.h"

namespace slipstream {

enum class ServerState : uint8_t { kLoading, kReady, kDraining, kDead };

class Edge {
 public:
  Edge(ServerConfig config, Auth auth);

  /// From here on the endpoints work. `services` outlives the edge's last request.
  void attach(const Services* services);
  void set_state(ServerState state) { state_ = state; }
  ServerState state() const;
  /// A word on what the loader is doing, shown by /health/ready.
  void set_progress(std::string text);

  /// Of the main listener.
  HttpResponse handle(const HttpRequest& request, PeerWatch& peer);
  /// Of the second listener: health and metrics only.
  HttpResponse handle_ops(const HttpRequest& request, PeerWatch& peer);
  /// Refuses by header alone: keys. Status 0 lets the body be read.
  HttpResponse filter(const HttpRequest& request);

  Metrics& metrics() { return metrics_; }
  /// The main server, for connection counts in /metrics.
  void set_http_stats(std::function<HttpServerStats()> stats) { http_stats_ = std::move(stats); }
  int64_t active_streams() const { return active_; }

 private:
  struct Route;
  static const Route* find_route(std::string_view path);
  static const Route* find_stored_route(std::string_view path);
  HttpResponse route(const HttpRequest& request, PeerWatch& peer, const std::string& request_id,
                     const std::shared_ptr<api::CallRecord>& record, const Route* found);
  HttpResponse finish(const HttpRequest& request, HttpResponse response, const std::string& given_id,
                      const std::shared_ptr<api::CallRecord>& record, const char* route_name);
  HttpResponse health(std::string_view path) const;
  HttpResponse metrics_page() const;

  const ServerConfig config_;
  const Auth auth_;
  std::atomic<const Services*> services_{nullptr};
  std::atomic<ServerState> state_{ServerState::kLoading};
  mutable std::mutex progress_mutex_;
  std::string progress_ = "starting";
  Metrics metrics_;
  std::function<HttpServerStats()> http_stats_;
  std::atomic<int64_t> active_{0};   // POST requests whose answer is not yet written, streams included
  const int64_t started_;            // Unix seconds
};

}  // namespace slipstream
