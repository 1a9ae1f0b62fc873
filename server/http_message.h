// One HTTP exchange as plain values: what the connection layer hands to the routes and gets back. Knows no socket, no
// HTTP library and no endpoint.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipstream {

struct HttpRequest {
  std::string method;        // as sent, upper case
  std::string target;        // origin form, as sent
  std::string path;          // target without the query; never percent-decoded
  std::string query;
  int minor_version = 1;     // HTTP/1.<minor>
  bool keep_alive = true;
  bool expects_continue = false;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, values trimmed
  std::string body;
  std::string remote;        // "address:port"
  std::chrono::steady_clock::time_point arrival{};  // when the last byte was there

  /// First header of that lower-case name, or "".
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
};

/// Set by the connection layer when the client has gone; watched by the handler. Thread-safe.
class PeerWatch {
 public:
  bool gone() const { return gone_.load(std::memory_order_acquire); }

  /// Calls `action` once when the client goes, at once if it already has. Replaces an earlier action; an empty one
  /// unsubscribes, and returns only when no action is running.
  void on_gone(std::function<void()> action) {
    std::lock_guard lock(mutex_);
    action_ = std::move(action);
    if (gone_.load(std::memory_order_acquire) && action_) action_();
  }

  void mark_gone() {
    std::lock_guard lock(mutex_);
    if (gone_.exchange(true, std::memory_order_acq_rel)) return;
    if (action_) action_();
  }

 private:
  std::atomic<bool> gone_{false};
  std::mutex mutex_;
  std::function<void()> action_;
};

/// Where a streamed body goes. False once the client is gone or too slow; nothing is written after that.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual bool write(std::string_view bytes) = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  /// When set, the body is what this writes (chunked); `body` is ignored. Runs on the same thread after the headers.
  std::function<void(BodySink&)> stream;
  /// Let go when the kernel has taken the last byte or the client is gone: a request slot is held while a slow client
  /// reads.
  std::shared_ptr<void> held;
  bool close = false;        // end the connection after this response
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&, PeerWatch&)>;
/// Asked after the header and before the body. A response ends the exchange without reading the body; status 0 goes on.
using HttpHeaderFilter = std::function<HttpResponse(const HttpRequest&)>;

}  // namespace slipstream
