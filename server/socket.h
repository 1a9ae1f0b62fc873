// Sockets as values: a descriptor that closes itself, listening without port sharing, bounded writes. Knows no HTTP.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/result.h"

namespace slipstream {

/// Owns one file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

/// A non-blocking listening socket with SO_REUSEADDR and without SO_REUSEPORT. kUnavailable names address and reason.
Result<Fd> listen_on(const std::string& host, int port);
/// The port that a bound socket has.
int bound_port(int fd);
/// "address:port" of the other end.
std::string peer_name(int fd);
/// TCP_NODELAY, keep-alive probes, a bounded send buffer.
void set_client_options(int fd);
/// Writes what the kernel takes at once and cuts it off the front of `bytes`. False on error.
bool send_some(int fd, std::string_view* bytes);
/// Writes all of `bytes` to a non-blocking socket. False on error, when `stall` passes without progress, and when the
/// whole takes longer than `stall` and reading_time together.
bool send_all(int fd, std::string_view bytes, std::chrono::milliseconds stall);
/// How long the slowest client that is put up with takes over so many bytes (limits::kAnswerBytesPerSecond).
std::chrono::milliseconds reading_time(size_t bytes);
/// Connects within `timeout`; for the healthcheck subcommand.
Result<Fd> connect_to(const std::string& host, int port, std::chrono::milliseconds timeout);

}  // namespace slipstream
