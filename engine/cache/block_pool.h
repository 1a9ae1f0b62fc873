// Counts the blocks of one cache group: each is free, cached (count 0, content may be hit again) or referenced; the sum
// never changes. Engine thread only. Knows ids, no bytes, tokens or requests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace slipstream {

class BlockPool {
 public:
  explicit BlockPool(int32_t blocks);

  /// Called with a cached block's id when its content is given up for reuse.
  void on_evict(std::function<void(int32_t)> evicted) { evicted_ = std::move(evicted); }

  /// A block with count 1: a free one, else the least recently used cached one (evicted); -1 when there is none.
  int32_t allocate();
  /// One more reference to a cached or referenced block.
  void reference(int32_t block);
  /// One reference less. At zero the block is cached if it was marked, otherwise free.
  void release(int32_t block);
  /// Its content can be found again: at count 0 it will be cached.
  void mark(int32_t block);
  /// Its content is forgotten: at count 0 it is free.
  void unmark(int32_t block);

  int32_t total() const { return static_cast<int32_t>(count_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached() const { return cached_; }
  int32_t referenced() const { return referenced_; }
  /// What allocate can still give.
  int32_t available() const { return free() + cached_; }
  int32_t count(int32_t block) const { return count_[static_cast<size_t>(block)]; }

  /// Proves the identity from scratch: every block is in exactly one state and the sums agree. False names the break.
  bool check(std::string* what) const;

 private:
  static constexpr int32_t kNone = -1;
  void append_lru(int32_t block);
  void remove_lru(int32_t block);

  std::vector<int32_t> count_;   // [total] references
  std::vector<uint8_t> marked_;  // [total]
  std::vector<int32_t> free_;    // stack
  std::vector<int32_t> newer_;   // [total] links of the LRU list of cached blocks
  std::vector<int32_t> older_;   // [total]
  int32_t oldest_ = kNone;
  int32_t newest_ = kNone;
  int32_t cached_ = 0;
  int32_t referenced_ = 0;
  std::function<void(int32_t)> evicted_;
};

}  // namespace slipstream
