// The socket client against a scripted server, and the whole subcommand against one that streams.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "server/bench.h"
#include "server/bench/http_client.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::bench;

namespace {

/// Answers every connection with what `reply` makes of the request's text.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<std::string(const std::string&)> reply) : reply_(std::move(reply)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 16) == 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int answered() const { return answered_; }

 private:
  void serve() {
    for (int fd; (fd = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(fd)) {
      std::string request;
      char buffer[4096];
      while (true) {
        const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<size_t>(got));
        const size_t head = request.find("\r\n\r\n");
        if (head == std::string::npos) continue;
        const size_t length = request.find("Content-Length: ");
        if (length == std::string::npos || length > head) break;
        if (request.size() >= head + 4 + std::stoul(request.substr(length + 16))) break;
      }
      const std::string answer = reply_(request);
      ++answered_;  // before the answer: its reader may ask for the count at once
      ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  std::function<std::string(const std::string&)> reply_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> answered_{0};
  std::thread thread_;
};

std::string chunked(const std::string& body, size_t step) {
  std::string out = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  char size[32];
  for (size_t i = 0; i < body.size(); i += step) {
    const std::string piece = body.substr(i, step);
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    out += size + piece + "\r\n";
  }
  return out + "0\r\n\r\n";
}

Result<std::string> get(const ScriptedServer& server, int64_t timeout_ms = 5000) {
  std::string body;
  SLIP_TRY(const Url url, parse_url(server.url()));
  SLIP_TRY(const int status, send_request(url, {"GET", "/x", "", "key"}, timeout_ms,
                                          [&](std::string_view bytes) { body += bytes; }));
  return std::to_string(status) + " " + body;
}

}  // namespace

TEST_CASE("URLs") {
  CHECK(parse_url("http://h:80/v1/")->path == "/v1");
  CHECK(parse_url("http://h")->port == "80");
  CHECK(parse_url("http://[::1]:9")->host == "::1");
  CHECK(parse_url("http://[::1]:9")->port == "9");
  for (const char* bad : {"", "h:80", "https://h", "http://", "http://:80", "http://h:x"}) CHECK_FALSE(parse_url(bad).ok());
}

TEST_CASE("bodies by length, by chunks and to the end") {
  std::string reply, seen;
  ScriptedServer server([&](const std::string& request) {
    seen = request;
    return reply;
  });
  reply = "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello";
  CHECK(*get(server) == "404 hello");
  CHECK(seen.find("Authorization: Bearer key\r\n") != std::string::npos);
  for (size_t step : {1, 3, 100}) {
    reply = chunked("hello world", step);
    CHECK(*get(server) == "200 hello world");
  }
  reply = "HTTP/1.0 200 OK\r\n\r\nall of it";
  CHECK(*get(server) == "200 all of it");
}

TEST_CASE("answers that are none") {
  std::string reply;
  ScriptedServer server([&](const std::string&) { return reply; });
  for (const char* bad : {"", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "HTTP/1.1 9 OK\r\n\r\n"}) {
    reply = bad;
    INFO(bad);
    CHECK_FALSE(get(server).ok());
  }
}

TEST_CASE("the subcommand counts what it measures") {
  const std::string stream =
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
  ScriptedServer server([&](const std::string& request) {
    if (request.starts_with("GET /v1/models")) {
      return std::string("HTTP/1.1 200 OK\r\n\r\n{\"data\":[{\"id\":\"m\"}]}");
    }
    return chunked(stream, 7);
  });
  CHECK(run_bench({server.url(), "--concurrency", "1,2", "--requests", "3", "--json"}) == 0);
  // models and info, and for each measurement one warm-up and three requests
  CHECK(server.answered() == 2 + 2 * (1 + 3));
}

TEST_CASE("exit codes of failures") {
  ScriptedServer server([](const std::string& request) {
    if (request.find("\"stream\":true") != std::string::npos) return std::string("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
    return std::string("HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n");
  });
  CHECK(run_bench({"--base-url", server.url(), "--json"}) == 2);                               // no models
  CHECK(run_bench({"--base-url", server.url(), "--model", "m", "--json"}) == 2);               // warm-up fails
  CHECK(run_bench({"--base-url", server.url(), "--model", "m", "--warmup", "0", "--json"}) == 1);
  CHECK(run_bench({"--base-url", "https://x"}) == 2);
  CHECK(run_bench({"--no-such-flag"}) == 2);
  CHECK(run_bench({"--concurrency", "0"}) == 2);
}
