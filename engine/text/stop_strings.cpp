// The stop string whose end comes first wins, the longest of those that end together; so the result does not depend
// on how the text is cut into pieces.
#include <algorithm>

#include "engine/text/detokenizer.h"

namespace slipstream {

StopStrings::StopStrings(std::vector<std::string> stops, bool include_in_output)
    : stops_(std::move(stops)), include_(include_in_output) {}

StopStrings::Piece StopStrings::push(std::string_view text) {
  held_ += text;
  size_t best_end = std::string::npos;
  int32_t best = -1;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    const size_t begin = stop.empty() ? std::string::npos : held_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    const bool longer = best >= 0 && end == best_end && stop.size() > stops_[static_cast<size_t>(best)].size();
    if (best < 0 || end < best_end || longer) {
      best = static_cast<int32_t>(i);
      best_end = end;
    }
  }
  if (best >= 0) {
    const size_t keep = include_ ? best_end : best_end - stops_[static_cast<size_t>(best)].size();
    Piece piece{held_.substr(0, keep), best};
    held_.clear();
    return piece;
  }
  size_t hold = 0;  // the longest end of the text that begins some stop string
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > hold; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) != 0) continue;
      hold = length;
      break;
    }
  }
  Piece piece{held_.substr(0, held_.size() - hold), -1};
  held_.erase(0, held_.size() - hold);
  return piece;
}

std::string StopStrings::finish() {
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace slipstream
