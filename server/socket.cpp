// POSIX sockets; see socket.h.
#include "server/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "config/limits.h"

namespace slipstream {
namespace {

constexpr int kBacklog = 512;

Error cannot(const std::string& what, const std::string& host, int port, const std::string& why) {
  return {ErrorCode::kUnavailable, "cannot " + what + " " + host + ":" + std::to_string(port) + ": " + why, {}};
}

struct Addresses {
  addrinfo* list = nullptr;
  ~Addresses() {
    if (list) freeaddrinfo(list);
  }
};

int resolve(const std::string& host, int port, bool passive, Addresses* out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  return getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &out->list);
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Fd> listen_on(const std::string& host, int port) {
  Addresses addresses;
  if (const int code = resolve(host, port, true, &addresses); code != 0)
    return cannot("listen on", host, port, gai_strerror(code));
  std::string why = "no address";
  for (const addrinfo* a = addresses.list; a; a = a->ai_next) {
    Fd fd(::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
    if (!fd.valid()) {
      why = std::strerror(errno);
      continue;
    }
    const int on = 1;
    // REUSEADDR only skips TIME_WAIT; REUSEPORT would let two servers share a port in silence
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) {
      const int off = 0;
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (::bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) return fd;
    why = std::strerror(errno);
  }
  return cannot("listen on", host, port, why);
}

int bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
}

std::string peer_name(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "unknown";
  char text[INET6_ADDRSTRLEN] = "";
  int port = 0;
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<sockaddr_in*>(&address);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    port = ntohs(in->sin_port);
    return std::string(text) + ":" + std::to_string(port);
  }
  const auto* in6 = reinterpret_cast<sockaddr_in6*>(&address);
  ::inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
  port = ntohs(in6->sin6_port);
  return "[" + std::string(text) + "]:" + std::to_string(port);
}

void set_client_options(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  // Left to itself the kernel would buffer megabytes for a reader that never reads. It doubles the figure given.
  const int bytes = static_cast<int>(limits::kStreamBufferBytes / 2);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

bool send_some(int fd, std::string_view* bytes) {
  while (!bytes->empty()) {
    const ssize_t sent = ::send(fd, bytes->data(), bytes->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      bytes->remove_prefix(static_cast<size_t>(sent));
    else if (errno != EINTR)
      return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

std::chrono::milliseconds reading_time(size_t bytes) {
  return std::chrono::milliseconds(static_cast<int64_t>(bytes) * 1000 / limits::kAnswerBytesPerSecond);
}

bool send_all(int fd, std::string_view bytes, std::chrono::milliseconds stall) {
  using Clock = std::chrono::steady_clock;
  // The kernel calls a socket writable when a third of its buffer is free, for a slow reader long after the last byte
  // moved; a send takes what fits before that.
  constexpr std::chrono::milliseconds kRetry{500};
  auto moved = Clock::now();
  const auto end = moved + stall + reading_time(bytes.size());
  while (true) {
    const size_t before = bytes.size();
    if (!send_some(fd, &bytes)) return false;
    if (bytes.empty()) return true;
    const auto now = Clock::now();
    if (bytes.size() < before) moved = now;
    const auto until = std::min(end, moved + stall);
    if (now >= until) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    pollfd waiting{fd, POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min(kRetry, left).count()));
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && (waiting.revents & (POLLERR | POLLHUP))) return false;
  }
}

Result<Fd> connect_to(const std::string& host, int port, std::chrono::milliseconds timeout) {
  Addresses addresses;
  if (const int code = resolve(host, port, false, &addresses); code != 0)
    return cannot("connect to", host, port, gai_strerror(code));
  std::string why = "no address";
  for (const addrinfo* a = addresses.list; a; a = a->ai_next) {
    Fd fd(::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
    if (!fd.valid()) continue;
    if (::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) return fd;
    if (errno == EINPROGRESS) {
      pollfd waiting{fd.get(), POLLOUT, 0};
      int code = 0;
      socklen_t size = sizeof code;
      if (::poll(&waiting, 1, static_cast<int>(timeout.count())) == 1 &&
          ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0)
        return fd;
      why = code != 0 ? std::strerror(code) : "timed out";
    } else {
      why = std::strerror(errno);
    }
  }
  return cannot("connect to", host, port, why);
}

}  // namespace slipstream
