// One listening socket and its connections. A reactor thread owns every socket while a request is being received and
// while a plain answer is being read, so idle and slow clients cost no thread; a complete request goes to a worker, which
// runs the handler and writes streamed answers. Owns deadlines, connection and worker bounds; knows no route.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/base/result.h"
#include "server/http_message.h"

namespace slipstream {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                  // 0: any free port
  int workers = 8;               // threads that run handlers; started when needed
  int max_connections = 1024;
  HttpHandler handler;
  HttpHeaderFilter filter;       // may be empty
  /// Body of an answer that the connection layer gives itself (400, 408, 413, 414, 431, 503 …).
  std::function<HttpResponse(std::string_view path, int status, const std::string& reason)> error_page;
};

struct HttpServerStats {
  int64_t connections = 0, accepted = 0, refused_busy = 0, timed_out = 0, malformed = 0, peer_gone = 0;
};

class HttpServer {
 public:
  explicit HttpServer(HttpServerOptions options);
  /// Stops within a second, whatever handlers do afterwards is their own business: call stop() first.
  ~HttpServer();

  /// Binds and listens, without sharing the port. kUnavailable names address and reason.
  Status bind();
  /// Starts the reactor and a first worker. kUnavailable when the system has no thread for them.
  Status start();
  int port() const;
  /// No new connections; idle ones are closed, running requests go on.
  void stop_accepting();
  /// Waits for running handlers and unread answers up to `timeout`, then closes everything. False when some had to be
  /// cut.
  bool stop(std::chrono::milliseconds timeout);
  HttpServerStats stats() const;

 private:
  class Reactor;
  std::unique_ptr<Reactor> reactor_;
};

}  // namespace slipstream
