// A line on standard error that is written over itself on a terminal, and nothing elsewhere. For the commands that people
// watch; one thread.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace slipstream {

class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  /// At most some twenty times a second.
  void show(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || (shown_ && now - last_ < std::chrono::milliseconds(50))) return;
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    std::fflush(stderr);
    shown_ = true;
    last_ = now;
  }
  void clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace slipstream
