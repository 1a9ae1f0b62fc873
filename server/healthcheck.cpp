// See healthcheck.h.
#include "server/healthcheck.h"

#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <chrono>
#include <cstdio>

#include "server/socket.h"

namespace slipstream {
namespace {

struct Target {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string path = "/health/ready";
  int timeout_s = 5;
};

bool read_int(const std::string& text, int low, int high, int* out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return code == std::errc{} && end == text.data() + text.size() && *out >= low && *out <= high;
}

bool read_url(std::string url, Target* out) {
  if (!url.starts_with("http://")) return false;
  url.erase(0, 7);
  const size_t slash = url.find('/');
  if (slash != std::string::npos) {
    if (slash + 1 < url.size()) out->path = url.substr(slash);
    url.resize(slash);
  }
  const size_t colon = url.rfind(':');
  out->port = 80;
  if (colon != std::string::npos && url.find(']', colon) == std::string::npos) {
    if (!read_int(url.substr(colon + 1), 1, 65535, &out->port)) return false;
    url.resize(colon);
  }
  if (url.size() > 2 && url.front() == '[' && url.back() == ']') url = url.substr(1, url.size() - 2);
  out->host = url;
  return !url.empty();
}

int fail(const std::string& why) {
  std::fprintf(stderr, "slipstream healthcheck: %s\n", why.c_str());
  return 1;
}

}  // namespace

int run_healthcheck(const std::vector<std::string>& args) {
  Target target;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string name = args[i], value;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (i + 1 < args.size()) {
      value = args[++i];
    }
    bool good = !value.empty();
    if (name == "--url")
      good = good && read_url(value, &target);
    else if (name == "--host")
      target.host = value;
    else if (name == "--port")
      good = good && read_int(value, 1, 65535, &target.port);
    else if (name == "--timeout")
      good = good && read_int(value, 1, 3600, &target.timeout_s);
    else
      good = false;
    if (!good) {
      std::fprintf(stderr, "slipstream healthcheck: bad argument %s; usage: healthcheck [--url URL | --host HOST "
                           "--port PORT] [--timeout SECONDS]\n", args[i].c_str());
      return 2;
    }
  }
  // a server that listens everywhere is reached here
  if (target.host == "0.0.0.0") target.host = "127.0.0.1";
  if (target.host == "::") target.host = "::1";

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(target.timeout_s);
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  };
  auto connected = connect_to(target.host, target.port, left());
  if (!connected.ok()) return fail(connected.error().message);
  const int fd = connected->get();
  const std::string request = "GET " + target.path + " HTTP/1.1\r\nHost: " + target.host + "\r\nConnection: close\r\n\r\n";
  if (!send_all(fd, request, left())) return fail("the server does not take the request");
  std::string answer;
  while (answer.find("\r\n") == std::string::npos && answer.size() < 4096) {
    pollfd waiting{fd, POLLIN, 0};
    if (left().count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left().count())) <= 0)
      return fail("no answer within " + std::to_string(target.timeout_s) + " s");
    char buffer[1024];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return fail("the server closed the connection");
    answer.append(buffer, static_cast<size_t>(got));
  }
  if (answer.starts_with("HTTP/1.1 200")) return 0;
  return fail("the server answers " + answer.substr(0, answer.find('\r')));
}

}  // namespace slipstream
