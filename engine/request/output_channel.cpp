#include "engine/request/output_channel.h"

namespace slipstream {

OutputChannel::OutputChannel(size_t capacity_events) : capacity_(capacity_events) {}

bool OutputChannel::push(OutputEvent event) {
  std::lock_guard lock(mutex_);
  if (overflowed_ || events_.size() >= capacity_) {
    overflowed_ = true;
    ready_.notify_one();
    return false;
  }
  events_.push_back(std::move(event));
  ready_.notify_one();
  return true;
}

std::optional<OutputEvent> OutputChannel::pop(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, timeout, [&] { return overflowed_ || !events_.empty(); });
  if (events_.empty()) return std::nullopt;
  std::optional<OutputEvent> event(std::move(events_.front()));
  events_.pop_front();
  return event;
}

std::vector<OutputEvent> OutputChannel::drain() {
  std::lock_guard lock(mutex_);
  std::vector<OutputEvent> all(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return all;
}

bool OutputChannel::overflowed() const {
  std::lock_guard lock(mutex_);
  return overflowed_;
}

}  // namespace slipstream
