// A fixed sequence of token ids, found in a stream of tokens one token at a time (Knuth, Morris, Pratt).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace slipstream {

class TokenSequence {
 public:
  /// An empty one is never found.
  explicit TokenSequence(std::vector<int32_t> ids) : ids_(std::move(ids)), shorter_(ids_.size() + 1, 0) {
    for (size_t end = 1; end < ids_.size(); ++end) shorter_[end + 1] = after(shorter_[end], ids_[end]);
  }

  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  bool empty() const { return ids_.empty(); }
  int32_t operator[](int32_t index) const { return ids_[static_cast<size_t>(index)]; }
  const std::vector<int32_t>& ids() const { return ids_; }

  /// How many of the stream's last tokens begin the sequence, when it were `matched` < size() before `token`.
  int32_t after(int32_t matched, int32_t token) const {
    if (ids_.empty()) return 0;
    while (matched > 0 && ids_[static_cast<size_t>(matched)] != token) matched = shorter_[static_cast<size_t>(matched)];
    return ids_[static_cast<size_t>(matched)] == token ? matched + 1 : 0;
  }

 private:
  std::vector<int32_t> ids_;
  std::vector<int32_t> shorter_;  // [i]: the longest proper border of the first i ids
};

}  // namespace slipstream
