// Named injection points for tests: "the third commit throws", "the tenth row is NaN". Passed explicitly to whatever
// may fail; a null pointer means that nothing fails. Production code holds none.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace slipstream {

/// Counts the passes of each point and fires at the chosen ones. Thread-safe.
class FaultSchedule {
 public:
  /// The `pass`-th pass (from 1) of `point` fires.
  void fire_at(std::string_view point, int64_t pass) {
    std::lock_guard lock(mutex_);
    points_[std::string(point)].chosen.insert(pass);
  }

  /// Counts one pass; true when it is a chosen one.
  bool passes(std::string_view point) {
    std::lock_guard lock(mutex_);
    auto found = points_.find(point);
    if (found == points_.end()) return false;
    Point& counted = found->second;
    const bool fires = counted.chosen.count(++counted.passes) != 0;
    if (fires) ++counted.fired;
    return fires;
  }

  int64_t fired(std::string_view point) const {
    std::lock_guard lock(mutex_);
    auto found = points_.find(point);
    return found == points_.end() ? 0 : found->second.fired;
  }

 private:
  struct Point {
    std::set<int64_t> chosen;
    int64_t passes = 0;
    int64_t fired = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Point, std::less<>> points_;
};

}  // namespace slipstream
