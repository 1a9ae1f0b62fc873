// Reactor and workers; see http_server.h.
#include "server/http_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "config/limits.h"
#include "engine/base/log.h"
#include "server/http_bridge.h"
#include "server/request_parser.h"
#include "server/socket.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};          // how often deadlines are looked at
constexpr milliseconds kLinger{1'000};      // how long an answered client may go on sending before the close
constexpr milliseconds kAcceptPause{100};   // after running out of descriptors

/// One client. The worker's while kHandling, except for `fd` and `peer`; otherwise the reactor's.
struct Connection {
  enum class Phase : uint8_t { kReading, kHandling, kWriting, kLingering };
  Fd fd;
  std::string remote;
  Phase phase = Phase::kReading;
  RequestParser parser;
  std::string input;              // received, not yet parsed: pipelined requests wait here
  Clock::time_point phase_start;  // of the request's first byte, of idling, writing or lingering
  Clock::time_point body_start;
  bool in_body = false;
  HttpRequest request;
  std::shared_ptr<PeerWatch> peer;
  // results of the worker
  bool keep = false;
  std::string output;             // of a plain answer, what the kernel has not taken
  size_t written = 0;             // of `output`
  std::shared_ptr<void> held;     // by the answer, until it is written
  Clock::time_point last_write;
};
using ConnectionPtr = std::shared_ptr<Connection>;

const char* reason_phrase(int status) {
  switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

/// An answer of the connection layer itself: small, and the last one on its connection.
std::string closing_answer(const HttpResponse& response) {
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + " " + reason_phrase(response.status) + "\r\n";
  for (const auto& [name, value] : response.headers) out += name + ": " + value + "\r\n";
  out += "Content-Type: " + response.content_type + "\r\nContent-Length: " + std::to_string(response.body.size()) +
         "\r\nConnection: close\r\n\r\n" + response.body;
  return out;
}

}  // namespace

class HttpServer::Reactor {
 public:
  explicit Reactor(HttpServerOptions options) : options_(std::move(options)) {}
  ~Reactor() { stop(milliseconds(0)); }

  Status bind() {
    SLIP_TRY(listener_, listen_on(options_.host, options_.port));
    port_ = bound_port(listener_.get());
    return Ok{};
  }

  Status start() {
    epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
    wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    CHECK(epoll_.valid() && wake_.valid(), "epoll or eventfd is not available");
    watch(EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
    watch(EPOLL_CTL_ADD, wake_.get(), EPOLLIN);
    try {
      thread_ = std::thread([this] { run(); });
      std::lock_guard lock(pool_mutex_);
      add_worker();
    } catch (const std::system_error& error) {
      stop(milliseconds(0));
      return Error{ErrorCode::kUnavailable,
                   "cannot start the threads of the listener on " + options_.host + ":" + std::to_string(port_) + ": " +
                       error.what() + "; raise the limits on threads (ulimit -u) and on memory",
                   {}};
    }
    return Ok{};
  }

  int port() const { return port_; }

  void stop_accepting() {
    accepting_ = false;
    wake();
  }

  bool stop(milliseconds timeout) {
    if (!thread_.joinable()) return true;
    stop_accepting();
    bool clean = false;
    {
      std::unique_lock lock(pool_mutex_);
      clean = pool_idle_.wait_for(lock, timeout, [this] { return queue_.empty() && busy_ == 0 && unwritten_ == 0; });
      stopping_ = true;
    }
    stop_reactor_ = true;
    wake();
    thread_.join();
    pool_work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    return clean;
  }

  HttpServerStats stats() const {
    HttpServerStats out;
    out.connections = connections_count_;
    out.accepted = accepted_;
    out.refused_busy = refused_busy_;
    out.timed_out = timed_out_;
    out.malformed = malformed_;
    out.peer_gone = peer_gone_;
    return out;
  }

 private:
  // ---- reactor thread ----

  void run() {
    std::vector<epoll_event> events(256);
    auto next_tick = Clock::now() + kTick;
    while (!stop_reactor_) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                     static_cast<int>(kTick.count()));
      for (int i = 0; i < count; ++i) handle(events[i]);
      take_back();
      if (Clock::now() >= next_tick) {
        tick();
        next_tick = Clock::now() + kTick;
      }
    }
    listener_.reset();
    // workers that still write find their peers gone
    for (auto& [fd, connection] : connections_) {
      if (connection->phase == Connection::Phase::kHandling) {
        ::shutdown(fd, SHUT_RDWR);
        connection->peer->mark_gone();
      }
    }
    connections_.clear();
    connections_count_ = 0;
  }

  void handle(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == wake_.get()) {
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t n = ::read(fd, &ignored, sizeof ignored);
      if (!accepting_ && listener_.valid()) {
        listener_.reset();
        close_idle();
      }
      return;
    }
    if (fd == listener_.get()) return accept_all();
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    ConnectionPtr connection = found->second;
    if (connection->phase == Connection::Phase::kHandling) {
      // a half-closed socket and a closed one look the same from here: both end a generation
      if (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ++peer_gone_;
        connection->peer->mark_gone();
      }
    } else if (connection->phase == Connection::Phase::kWriting) {
      write_on(connection);
    } else {
      receive(connection);
    }
  }

  void accept_all() {
    while (accepting_) {
      Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          log::warn("accept_paused", {{"reason", "out of file descriptors"}, {"connections", connections_.size()}});
          watch(EPOLL_CTL_MOD, listener_.get(), 0);
          accept_paused_until_ = Clock::now() + kAcceptPause;
        }
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return;
      }
      ++accepted_;
      if (static_cast<int>(connections_.size()) >= options_.max_connections && !evict_idle()) {
        ++refused_busy_;
        const HttpResponse page = options_.error_page("", 503, "too many connections");
        send_all(fd.get(), closing_answer(page), milliseconds(0));
        ::shutdown(fd.get(), SHUT_WR);
        continue;
      }
      set_client_options(fd.get());
      auto connection = std::make_shared<Connection>();
      connection->remote = peer_name(fd.get());
      connection->fd = std::move(fd);
      connection->phase_start = Clock::now();
      const int key = connection->fd.get();
      watch(EPOLL_CTL_ADD, key, EPOLLIN | EPOLLRDHUP);
      connections_.emplace(key, std::move(connection));
      connections_count_ = static_cast<int64_t>(connections_.size());
    }
  }

  /// Closes the connection that has been idle longest; false when none is idle.
  bool evict_idle() {
    ConnectionPtr oldest;
    for (auto& [fd, c] : connections_)
      if (c->phase == Connection::Phase::kReading && !c->parser.started() &&
          (!oldest || c->phase_start < oldest->phase_start))
        oldest = c;
    if (!oldest) return false;
    drop(oldest);
    return true;
  }

  void close_idle() {
    std::vector<ConnectionPtr> idle;
    for (auto& [fd, c] : connections_)
      if (c->phase == Connection::Phase::kReading && !c->parser.started() && c->input.empty()) idle.push_back(c);
    for (auto& c : idle) drop(c);
  }

  void receive(const ConnectionPtr& c) {
    char buffer[64 << 10];
    const ssize_t got = ::recv(c->fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return drop(c);
    if (c->phase == Connection::Phase::kLingering) return;  // discarded until the deadline
    c->input.append(buffer, static_cast<size_t>(got));
    advance(c);
  }

  /// Parses what has arrived; dispatches, answers or waits for more.
  void advance(const ConnectionPtr& c) {
    size_t used = 0;
    const bool was_started = c->parser.started();
    const size_t held = c->parser.body_bytes();
    for (;;) {
      used += c->parser.feed(std::string_view(c->input).substr(used));
      if (c->parser.state() != RequestParser::State::kHeaderDone) break;
      if (!header_done(c)) return;
    }
    c->input.erase(0, used);
    buffered_bodies_ += static_cast<int64_t>(c->parser.body_bytes()) - static_cast<int64_t>(held);
    if (!was_started && c->parser.started()) c->phase_start = Clock::now();
    switch (c->parser.state()) {
      case RequestParser::State::kFailed: {
        ++malformed_;
        buffered_bodies_ -= static_cast<int64_t>(c->parser.body_bytes());
        const HttpResponse page = options_.error_page(c->parser.request().path, c->parser.status(), c->parser.reason());
        return answer_and_close(c, page);
      }
      case RequestParser::State::kDone: return dispatch(c);
      default: break;
    }
    if (buffered_bodies_ > limits::kBufferedBodiesBytes && c->parser.body_bytes() > 0) {
      ++refused_busy_;
      buffered_bodies_ -= static_cast<int64_t>(c->parser.body_bytes());
      answer_and_close(c, options_.error_page(c->parser.request().path, 503, "too many request bodies are being received"));
    }
  }

  /// Between header and body; false when the exchange ended here.
  bool header_done(const ConnectionPtr& c) {
    if (options_.filter) {
      HttpResponse refusal = options_.filter(c->parser.request());
      if (refusal.status != 0) {
        answer_and_close(c, refusal);
        return false;
      }
    }
    const bool waits = c->parser.request().expects_continue && c->parser.has_body();
    c->parser.accept_body();
    c->in_body = c->parser.state() == RequestParser::State::kBody;
    c->body_start = Clock::now();
    if (waits && !send_all(c->fd.get(), "HTTP/1.1 100 Continue\r\n\r\n", milliseconds(0))) {
      drop(c);
      return false;
    }
    return true;
  }

  void dispatch(const ConnectionPtr& c) {
    buffered_bodies_ -= static_cast<int64_t>(c->parser.body_bytes());
    c->request = c->parser.take();
    c->request.remote = c->remote;
    c->request.arrival = Clock::now();
    c->peer = std::make_shared<PeerWatch>();
    c->in_body = false;
    {
      std::lock_guard lock(pool_mutex_);
      // A queue as long as the pool absorbs bursts of short requests; generation is bounded by its own stream limit,
      // below the number of workers, so that a reserve is always moving.
      if (static_cast<int>(queue_.size()) < options_.workers) {
        c->phase = Connection::Phase::kHandling;
        // armed under the lock: once queued, the connection is the worker's
        watch(EPOLL_CTL_MOD, c->fd.get(), EPOLLRDHUP | EPOLLONESHOT);
        queue_.push_back(c);
        if (idle_ < static_cast<int>(queue_.size()) && static_cast<int>(workers_.size()) < options_.workers)
          try {
            add_worker();
          } catch (const std::system_error&) {
            // no more threads to be had: those that run, at least the first one, take the connection in turn
          }
        pool_work_.notify_one();
        return;
      }
    }
    ++refused_busy_;
    answer_and_close(c, options_.error_page(c->request.path, 503, "all workers are busy"));
  }

  /// Connections whose worker is done.
  void take_back() {
    std::vector<ConnectionPtr> returned;
    {
      std::lock_guard lock(pool_mutex_);
      returned.swap(returned_);
    }
    for (const ConnectionPtr& c : returned) {
      c->request = {};
      if (c->output.empty()) {
        answered(c);
        continue;
      }
      c->phase = Connection::Phase::kWriting;
      c->phase_start = c->last_write = Clock::now();
      watch(EPOLL_CTL_MOD, c->fd.get(), EPOLLOUT);
    }
  }

  /// More of a plain answer whose client reads slowly.
  void write_on(const ConnectionPtr& c) {
    std::string_view rest = std::string_view(c->output).substr(c->written);
    const size_t before = rest.size();
    if (!send_some(c->fd.get(), &rest)) return drop(c);
    if (rest.size() == before) return;
    c->written = c->output.size() - rest.size();
    c->last_write = Clock::now();
    if (!rest.empty()) return;
    forget_output(c);
    answered(c);
  }

  void forget_output(const ConnectionPtr& c) {
    c->held.reset();
    c->output = {};
    c->written = 0;
    std::lock_guard lock(pool_mutex_);
    if (--unwritten_ == 0 && busy_ == 0 && queue_.empty()) pool_idle_.notify_all();
  }

  /// The answer is in the kernel's hands: the next request, or the end.
  void answered(const ConnectionPtr& c) {
    c->held.reset();
    if (!c->keep || c->peer->gone()) return linger(c);
    c->phase = Connection::Phase::kReading;
    c->phase_start = Clock::now();
    if (!accepting_ && c->input.empty()) return drop(c);
    watch(EPOLL_CTL_MOD, c->fd.get(), EPOLLIN | EPOLLRDHUP);
    if (!c->input.empty()) advance(c);
  }

  void answer_and_close(const ConnectionPtr& c, const HttpResponse& response) {
    send_all(c->fd.get(), closing_answer(response), milliseconds(0));
    linger(c);
  }

  /// Closing with unread bytes would reset the connection and could take the answer with it: half-close, then discard.
  void linger(const ConnectionPtr& c) {
    ::shutdown(c->fd.get(), SHUT_WR);
    c->phase = Connection::Phase::kLingering;
    c->phase_start = Clock::now();
    c->input.clear();
    c->parser = RequestParser();
    watch(EPOLL_CTL_MOD, c->fd.get(), EPOLLIN);
  }

  void drop(const ConnectionPtr& c) {
    if (c->phase == Connection::Phase::kReading) buffered_bodies_ -= static_cast<int64_t>(c->parser.body_bytes());
    if (c->phase == Connection::Phase::kWriting && !c->output.empty()) forget_output(c);
    const int fd = c->fd.get();
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    connections_.erase(fd);
    connections_count_ = static_cast<int64_t>(connections_.size());
    c->fd.reset();
  }

  void tick() {
    if (accept_paused_until_ != Clock::time_point{} && Clock::now() >= accept_paused_until_ && listener_.valid()) {
      accept_paused_until_ = {};
      watch(EPOLL_CTL_MOD, listener_.get(), EPOLLIN);
    }
    std::vector<ConnectionPtr> writing, late, slow, dead;
    // Before judging: a send takes what fits long before the kernel calls the socket writable, so that what counts is what
    // the client read. It may end the exchange, and so change the map.
    for (auto& [fd, c] : connections_)
      if (c->phase == Connection::Phase::kWriting) writing.push_back(c);
    for (const ConnectionPtr& c : writing) write_on(c);
    const auto now = Clock::now();
    for (auto& [fd, c] : connections_) {
      const auto since = std::chrono::duration_cast<milliseconds>(now - c->phase_start).count();
      if (c->phase == Connection::Phase::kLingering) {
        if (now - c->phase_start > kLinger) dead.push_back(c);
      } else if (c->phase == Connection::Phase::kWriting) {
        const auto stalled = std::chrono::duration_cast<milliseconds>(now - c->last_write).count();
        if (stalled > limits::kStreamStallMs || since > limits::kStreamStallMs + reading_time(c->written).count())
          slow.push_back(c);
      } else if (c->phase == Connection::Phase::kReading) {
        if (!c->parser.started()) {
          if (since > limits::kIdleConnectionMs) dead.push_back(c);
        } else if (!c->in_body) {
          if (since > limits::kHeaderDeadlineMs) late.push_back(c);
        } else {
          const auto body = std::chrono::duration_cast<milliseconds>(now - c->body_start).count();
          const int64_t due = (body - limits::kBodyGraceMs) * limits::kBodyBytesPerSecond / 1000;
          if (due > 0 && static_cast<int64_t>(c->parser.wire_body_bytes()) < due) late.push_back(c);
        }
      }
    }
    timed_out_ += static_cast<int64_t>(slow.size() + late.size());
    for (const ConnectionPtr& c : dead) drop(c);
    for (const ConnectionPtr& c : slow) drop(c);
    for (const ConnectionPtr& c : late) {
      buffered_bodies_ -= static_cast<int64_t>(c->parser.body_bytes());
      answer_and_close(c, options_.error_page(c->parser.request().path, 408, "the request did not arrive in time"));
    }
  }

  void watch(int operation, int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), operation, fd, &event);
  }

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  }

  /// Under the lock of the pool.
  void add_worker() {
    workers_.emplace_back([this] { work(); });
  }

  // ---- worker threads ----

  void work() {
    std::unique_lock lock(pool_mutex_);
    for (;;) {
      ++idle_;
      pool_work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      --idle_;
      if (queue_.empty()) return;
      ConnectionPtr c = std::move(queue_.front());
      queue_.pop_front();
      ++busy_;
      lock.unlock();
      serve(*c);
      lock.lock();
      --busy_;
      unwritten_ += c->output.empty() ? 0 : 1;
      returned_.push_back(std::move(c));
      wake();
      if (busy_ == 0 && queue_.empty() && unwritten_ == 0) pool_idle_.notify_all();
    }
  }

  void serve(Connection& c) {
    const auto write = [&c](std::string_view bytes) {  // of a stream: its slot bounds how many workers wait here
      if (send_all(c.fd.get(), bytes, milliseconds(limits::kStreamStallMs))) return true;
      c.peer->mark_gone();
      return false;
    };
    HttpBridge::Reply reply = bridge_.respond(c.request, options_.handler, *c.peer, write);
    c.peer->on_gone({});
    c.keep = reply.keep_alive;
    std::string_view rest = reply.unsent;
    if (!send_some(c.fd.get(), &rest)) {
      c.keep = false;
      return;
    }
    if (rest.empty()) return;
    c.output = std::move(reply.unsent.erase(0, reply.unsent.size() - rest.size()));
    c.held = std::move(reply.held);
  }

  HttpServerOptions options_;
  HttpBridge bridge_;
  Fd listener_, epoll_, wake_;
  int port_ = 0;
  std::thread thread_;
  std::unordered_map<int, ConnectionPtr> connections_;
  int64_t buffered_bodies_ = 0;
  Clock::time_point accept_paused_until_{};
  std::atomic<bool> accepting_{true}, stop_reactor_{false};
  std::atomic<int64_t> connections_count_{0}, accepted_{0}, refused_busy_{0}, timed_out_{0}, malformed_{0},
      peer_gone_{0};

  std::mutex pool_mutex_;
  std::condition_variable pool_work_, pool_idle_;
  std::deque<ConnectionPtr> queue_;
  std::vector<ConnectionPtr> returned_;
  std::vector<std::thread> workers_;  // grown by the reactor under the lock
  int idle_ = 0, busy_ = 0;
  int unwritten_ = 0;                 // connections with output, from their worker's return on
  bool stopping_ = false;
};

HttpServer::HttpServer(HttpServerOptions options) : reactor_(std::make_unique<Reactor>(std::move(options))) {}
HttpServer::~HttpServer() = default;
Status HttpServer::bind() { return reactor_->bind(); }
Status HttpServer::start() { return reactor_->start(); }
int HttpServer::port() const { return reactor_->port(); }
void HttpServer::stop_accepting() { reactor_->stop_accepting(); }
bool HttpServer::stop(std::chrono::milliseconds timeout) { return reactor_->stop(timeout); }
HttpServerStats HttpServer::stats() const { return reactor_->stats(); }

}  // namespace slipstream
