// Notices a step that does not end. Its own thread; arm, feed and disarm come from the engine thread. Knows no plan.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace slipstream {

class Watchdog {
 public:
  /// `expired` runs once on the watchdog's thread, within the limit plus a wake-up. A limit of 0 never expires.
  Watchdog(std::chrono::milliseconds limit, std::function<void()> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Starts the deadline unless it runs already.
  void arm();
  /// A step ended: starts the deadline again.
  void feed();
  void disarm();

 private:
  void watch();

  const std::chrono::milliseconds limit_;
  const std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace slipstream
