// The only file that includes httplib.h. Written against 0.11.4 (Debian 12), 0.14 (Ubuntu 24.04) and 0.53.
#include "server/http_bridge.h"

#include <httplib.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "engine/base/log.h"

namespace slipstream {
namespace {

/// What the handler of the current process_request call needs; a handler gets no Stream, hence thread_local.
struct Exchange {
  const HttpRequest* request;
  const HttpHandler* handler;
  PeerWatch* peer;
  bool close;
  bool streamed = false;
  std::shared_ptr<void> held{};
};
thread_local Exchange* current = nullptr;

/// Reads a synthetic header from memory; writes a streamed response to the client and collects a plain one. No `override`: some functions are pure virtuals of some
/// releases and unknown to others.
class MemoryStream final : public httplib::Stream {
 public:
  MemoryStream(std::string input, const Exchange& exchange, const HttpBridge::Write& write)
      : input_(std::move(input)), exchange_(exchange), write_(write) {}

  bool is_readable() const { return at_ < input_.size(); }
  bool wait_readable() const { return at_ < input_.size(); }
  bool is_writable() const { return !broken_; }
  bool wait_writable() const { return !broken_; }
  bool is_peer_alive() const { return !broken_; }
  time_t duration() const { return 0; }

  ssize_t read(char* out, size_t size) {
    const size_t count = std::min(size, input_.size() - at_);
    std::memcpy(out, input_.data() + at_, count);
    at_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) {
    if (!exchange_.streamed) {
      collected_.append(bytes, size);
    } else if (broken_ || !write_({bytes, size})) {
      broken_ = true;
      return -1;
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  // never the real descriptor: 0.11 answers 500 when it is not below FD_SETSIZE
  socket_t socket() const { return 0; }
  bool broken() const { return broken_; }
  std::string collected() { return std::move(collected_); }

 private:
  std::string input_;
  std::string collected_;
  size_t at_ = 0;
  const Exchange& exchange_;
  const HttpBridge::Write& write_;
  bool broken_ = false;
};

class Sink final : public BodySink {
 public:
  explicit Sink(httplib::DataSink& sink) : sink_(sink) {}
  bool write(std::string_view bytes) override {
    // a chunk of size zero would end the body
    if (ok_ && !bytes.empty()) ok_ = sink_.write(bytes.data(), bytes.size());
    return ok_;
  }
  bool ok() const { return ok_; }

 private:
  httplib::DataSink& sink_;
  bool ok_ = true;
};

HttpResponse run_handler(const Exchange& exchange) {
  try {
    return (*exchange.handler)(*exchange.request, *exchange.peer);
  } catch (const std::exception& error) {
    log::error("handler_exception", {{"path", exchange.request->path}, {"what", error.what()}});
  }
  HttpResponse response;
  response.status = 500;
  response.body =
      R"({"error":{"message":"internal error","type":"server_error","param":null,"code":"internal_error"}})";
  return response;
}

void fill(Exchange& exchange, httplib::Response& out) {
  HttpResponse response = run_handler(exchange);
  out.status = response.status;
  if (response.status == 499) out.reason = "Client Closed Request";  // a number that the library does not know
  for (const auto& [name, value] : response.headers) out.set_header(name.c_str(), value);
  exchange.close = exchange.close || response.close;
  exchange.held = std::move(response.held);
  exchange.streamed = static_cast<bool>(response.stream);
  if (!response.stream) {
    // a 204 has no body and so no type
    if (response.status != 204) out.set_content(response.body, response.content_type.c_str());
  } else {
    auto provider = [stream = std::move(response.stream)](size_t, httplib::DataSink& data_sink) {
      Sink sink(data_sink);
      try {
        stream(sink);
      } catch (const std::exception& error) {
        log::error("stream_exception", {{"what", error.what()}});
        return false;
      }
      data_sink.done();
      return sink.ok();
    };
    if (exchange.request->minor_version == 0) {  // HTTP/1.0 knows no chunks: the end of the connection ends the body
      exchange.close = true;
      out.set_content_provider(response.content_type.c_str(), provider);
    } else {
      out.set_chunked_content_provider(response.content_type.c_str(), provider);
    }
  }
  if (exchange.close) out.set_header("Connection", "close");
}

}  // namespace

class HttpBridge::Server final : public httplib::Server {
 public:
  Server() {
    svr_sock_ = 0;  // an invalid socket would mean "shutting down", and streamed bodies would be empty
    set_keep_alive_max_count(1'000'000);
    set_keep_alive_timeout(75);
    set_pre_routing_handler([](const httplib::Request&, httplib::Response& out) {
      fill(*current, out);
      return HandlerResponse::Handled;
    });
  }

  // 0.18 moved the peer's address from the Stream to parameters.
  bool process(httplib::Stream& stream, bool close, bool& closed) { return process_any(this, stream, close, closed); }

 private:
  template <typename Self>
  static bool process_any(Self* self, httplib::Stream& stream, bool close, bool& closed) {
    const std::string none;
    if constexpr (requires { self->process_request(stream, close, closed, nullptr); })
      return self->process_request(stream, close, closed, nullptr);
    else
      return self->process_request(stream, none, 0, none, 0, close, closed, nullptr);
  }
};

HttpBridge::HttpBridge() : server_(std::make_unique<Server>()) {}
HttpBridge::~HttpBridge() = default;

HttpBridge::Reply HttpBridge::respond(const HttpRequest& request, const HttpHandler& handler, PeerWatch& peer,
                                      const Write& write) {
  Exchange exchange{&request, &handler, &peer, !request.keep_alive};
  // httplib knows a closed list of methods; ours were judged by the routes already.
  const char* line = request.method == "HEAD" ? "HEAD / HTTP/1.1\r\n\r\n" : "GET / HTTP/1.1\r\n\r\n";
  MemoryStream stream(line, exchange, write);
  current = &exchange;
  bool closed = false;
  const bool written = server_->process(stream, exchange.close, closed);
  current = nullptr;
  return {written && !stream.broken() && !exchange.close, stream.collected(), std::move(exchange.held)};
}

}  // namespace slipstream
