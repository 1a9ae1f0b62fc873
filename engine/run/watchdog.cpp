#include "engine/run/watchdog.h"

namespace slipstream {

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<void()> expired)
    : limit_(limit), expired_(std::move(expired)) {
  if (limit_.count() > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Watchdog::arm() {
  std::lock_guard lock(mutex_);
  if (deadline_) return;
  deadline_ = std::chrono::steady_clock::now() + limit_;
  changed_.notify_one();
}

void Watchdog::feed() {
  std::lock_guard lock(mutex_);
  // A later deadline needs no wake-up: the watcher looks again when the old one passes.
  deadline_ = std::chrono::steady_clock::now() + limit_;
}

void Watchdog::disarm() {
  std::lock_guard lock(mutex_);
  deadline_.reset();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!deadline_) {
      changed_.wait(lock, [&] { return stop_ || deadline_.has_value(); });
      continue;
    }
    if (std::chrono::steady_clock::now() < *deadline_) {
      const auto until = *deadline_;
      changed_.wait_until(lock, until);
      continue;
    }
    deadline_.reset();
    lock.unlock();
    expired_();
    return;
  }
}

}  // namespace slipstream
