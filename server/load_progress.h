// How far the loading is, for people: a bar on a terminal, a log line now and then elsewhere. Knows bytes and seconds; no
// model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace slipstream {

/// "loading weights  [##########..........] 7.65 of 15.26 GiB, 24.1 GB/s": one line of the bar; done <= all.
std::string progress_bar(std::string_view what, uint64_t done, uint64_t all, double seconds);

class LoadProgress {
 public:
  static constexpr std::chrono::milliseconds kBarEvery{100};
  static constexpr std::chrono::seconds kLineEvery{5};

  struct Output {
    std::function<void(const std::string&)> bar;  // rewrites the current line of the terminal; null where there is none
    std::function<void(uint64_t done, uint64_t all, double gb_per_s)> line;  // a log line
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  };
  LoadProgress(std::string what, Output output);
  /// Ends the bar's line where finish was not reached.
  ~LoadProgress();
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  /// Cheap when nothing is due.
  void update(uint64_t done, uint64_t all);
  /// The last state, and the end of the bar's line.
  void finish(uint64_t all);
  double seconds() const;

 private:
  void show(uint64_t done, uint64_t all);

  const std::string what_;
  const Output output_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point shown_;
  bool open_ = false;  // the bar stands in an unfinished line
};

/// A bar on stderr when it is a terminal and info lines are on, log lines `event` otherwise.
LoadProgress::Output progress_output(std::string_view event);

}  // namespace slipstream
