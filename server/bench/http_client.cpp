#include "server/bench/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

namespace slipstream::bench {
namespace {

constexpr size_t kHeaderBytes = 64 << 10;
constexpr size_t kReadBytes = 64 << 10;

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// An open connection with one deadline for everything.
class Connection {
 public:
  explicit Connection(int64_t deadline_ms) : deadline_ms_(deadline_ms) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status open(const Url& url) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int code = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list);
    if (code != 0) return io_error(url.host + ": " + ::gai_strerror(code));
    std::string reason = "no address";
    for (addrinfo* entry = list; entry != nullptr && fd_ < 0; entry = entry->ai_next) {
      reason = try_address(*entry);
    }
    ::freeaddrinfo(list);
    if (fd_ < 0) return io_error("cannot connect to " + url.host + ":" + url.port + ": " + reason);
    return Ok{};
  }

  Status write(std::string_view bytes) {
    while (!bytes.empty()) {
      SLIP_RETURN_IF_ERROR(wait(POLLOUT));
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (sent < 0) return io_error(std::string("send failed: ") + std::strerror(errno));
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return Ok{};
  }

  /// More bytes at the end of `buffer`; false at the end of the stream.
  Result<bool> read(std::string& buffer) {
    while (true) {
      SLIP_RETURN_IF_ERROR(wait(POLLIN));
      const size_t before = buffer.size();
      buffer.resize(before + kReadBytes);
      const ssize_t got = ::recv(fd_, buffer.data() + before, kReadBytes, 0);
      buffer.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) return io_error(std::string("read failed: ") + std::strerror(errno));
      return got > 0;
    }
  }

 private:
  /// "" and an open fd_, or the reason.
  std::string try_address(const addrinfo& entry) {
    const int fd = ::socket(entry.ai_family, entry.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, entry.ai_protocol);
    if (fd < 0) return std::strerror(errno);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fd_ = fd;
    if (::connect(fd, entry.ai_addr, entry.ai_addrlen) == 0) return "";
    int code = errno;
    if (code == EINPROGRESS) {
      code = ETIMEDOUT;
      if (wait(POLLOUT).ok()) {
        socklen_t size = sizeof code;
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
      }
    }
    if (code == 0) return "";
    ::close(fd);
    fd_ = -1;
    return std::strerror(code);
  }

  Status wait(short event) {
    while (true) {
      const int64_t left = deadline_ms_ - now_ms();
      if (left <= 0) return io_error("timed out");
      pollfd entry{fd_, event, 0};
      const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
      if (ready > 0) return Ok{};
      if (ready < 0 && errno != EINTR) return io_error(std::string("poll failed: ") + std::strerror(errno));
    }
  }

  int64_t deadline_ms_;
  int fd_ = -1;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

struct Head {
  int status = 0;
  bool chunked = false;
  int64_t length = -1;  // -1: until the connection closes
};

Result<Head> parse_head(std::string_view text) {
  Head head;
  if (text.size() < 12 || !text.starts_with("HTTP/1.")) return io_error("not an HTTP/1.x answer");
  std::from_chars(text.data() + 9, text.data() + 12, head.status);
  if (head.status < 100 || head.status > 599) return io_error("an answer without a status");
  size_t at = text.find("\r\n");
  while (at != std::string_view::npos && at + 2 < text.size()) {
    const size_t begin = at + 2;
    at = text.find("\r\n", begin);
    const std::string line = lower(text.substr(begin, at == std::string_view::npos ? at : at - begin));
    if (line.starts_with("transfer-encoding:") && line.find("chunked") != std::string::npos) head.chunked = true;
    if (line.starts_with("content-length:")) {
      const size_t digits = line.find_first_of("0123456789");
      if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), head.length);
    }
  }
  return head;
}

/// Reads a chunked body; `buffer` holds what came behind the head.
Status read_chunks(Connection& connection, std::string& buffer, const std::function<void(std::string_view)>& on_body) {
  size_t at = 0;
  const auto more = [&]() -> Status {
    SLIP_TRY(const bool open, connection.read(buffer));
    if (!open) return io_error("the stream was cut short");
    return Ok{};
  };
  while (true) {
    size_t line_end;
    while ((line_end = buffer.find("\r\n", at)) == std::string::npos) SLIP_RETURN_IF_ERROR(more());
    uint64_t size = 0;
    const auto parsed = std::from_chars(buffer.data() + at, buffer.data() + line_end, size, 16);
    if (parsed.ec != std::errc{} || size > (uint64_t{1} << 30)) return io_error("a malformed chunk size");
    if (size == 0) return Ok{};
    const size_t begin = line_end + 2;
    while (buffer.size() < begin + size + 2) SLIP_RETURN_IF_ERROR(more());
    on_body(std::string_view(buffer).substr(begin, size));
    at = begin + size + 2;
    if (at > kReadBytes || at == buffer.size()) {
      buffer.erase(0, at);
      at = 0;
    }
  }
}

Status read_plain(Connection& connection, std::string& buffer, int64_t length,
                  const std::function<void(std::string_view)>& on_body) {
  int64_t got = 0;
  while (true) {
    if (!buffer.empty()) on_body(buffer);
    got += static_cast<int64_t>(buffer.size());
    if (length >= 0 && got >= length) return Ok{};
    buffer.clear();
    SLIP_TRY(const bool open, connection.read(buffer));
    if (!open) return length < 0 ? Status(Ok{}) : Status(io_error("the answer was cut short"));
  }
}

}  // namespace

Result<Url> parse_url(const std::string& text) {
  constexpr std::string_view kHttp = "http://";
  if (text.starts_with("https://")) return unsupported("https is not served here; measure the server behind the proxy, over http");
  if (!text.starts_with(kHttp)) return invalid_argument("\"" + text + "\" is no URL; write http://HOST:PORT");
  std::string rest = text.substr(kHttp.size());
  Url url;
  const size_t slash = rest.find('/');
  if (slash != std::string::npos) url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  rest = rest.substr(0, slash);
  const size_t bracket = rest.find(']');
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) url.port = rest.substr(colon + 1);
  url.host = rest.substr(0, colon);
  if (url.host.starts_with('[') && url.host.ends_with(']')) url.host = url.host.substr(1, url.host.size() - 2);
  if (url.host.empty() || url.port.empty() || url.port.find_first_not_of("0123456789") != std::string::npos) {
    return invalid_argument("\"" + text + "\" is no URL; write http://HOST:PORT");
  }
  return url;
}

Result<int> send_request(const Url& url, const HttpRequest& request, int64_t timeout_ms,
                         const std::function<void(std::string_view)>& on_body) {
  Connection connection(now_ms() + timeout_ms);
  SLIP_RETURN_IF_ERROR(connection.open(url));
  std::string message = request.method + " " + request.path + " HTTP/1.1\r\nHost: " + url.host + ":" + url.port +
                        "\r\nConnection: close\r\nAccept: */*\r\nUser-Agent: slipstream-bench\r\n";
  if (!request.api_key.empty()) message += "Authorization: Bearer " + request.api_key + "\r\n";
  if (!request.body.empty()) {
    message += "Content-Type: application/json\r\nContent-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  message += "\r\n" + request.body;
  SLIP_RETURN_IF_ERROR(connection.write(message));

  std::string buffer;
  size_t head_end;
  while ((head_end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (buffer.size() > kHeaderBytes) return io_error("an endless header");
    SLIP_TRY(const bool open, connection.read(buffer));
    if (!open) return io_error("the connection closed without an answer");
  }
  SLIP_TRY(const Head head, parse_head(std::string_view(buffer).substr(0, head_end)));
  buffer.erase(0, head_end + 4);
  if (head.chunked) {
    SLIP_RETURN_IF_ERROR(read_chunks(connection, buffer, on_body));
  } else {
    SLIP_RETURN_IF_ERROR(read_plain(connection, buffer, head.length, on_body));
  }
  return head.status;
}

}  // namespace slipstream::bench
