#include "engine/cache/block_pool.h"

#include "kernels/check.h"

namespace slipstream {

BlockPool::BlockPool(int32_t blocks)
    : count_(static_cast<size_t>(blocks), 0),
      marked_(static_cast<size_t>(blocks), 0),
      newer_(static_cast<size_t>(blocks), kNone),
      older_(static_cast<size_t>(blocks), kNone) {
  free_.reserve(static_cast<size_t>(blocks));
  for (int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);  // low ids first
}

int32_t BlockPool::allocate() {
  int32_t block = kNone;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (oldest_ != kNone) {
    block = oldest_;
    remove_lru(block);
    marked_[static_cast<size_t>(block)] = 0;
    if (evicted_) evicted_(block);
  } else {
    return kNone;
  }
  count_[static_cast<size_t>(block)] = 1;
  ++referenced_;
  return block;
}

void BlockPool::reference(int32_t block) {
  const auto index = static_cast<size_t>(block);
  if (count_[index] == 0) {
    CHECK(marked_[index] != 0, "a free block cannot be referenced");
    remove_lru(block);
    ++referenced_;
  }
  ++count_[index];
}

void BlockPool::release(int32_t block) {
  const auto index = static_cast<size_t>(block);
  CHECK(count_[index] > 0, "release of a block without references");
  if (--count_[index] > 0) return;
  --referenced_;
  if (marked_[index] != 0)
    append_lru(block);
  else
    free_.push_back(block);
}

void BlockPool::mark(int32_t block) {
  CHECK(count_[static_cast<size_t>(block)] > 0, "only a referenced block can be marked");
  marked_[static_cast<size_t>(block)] = 1;
}

void BlockPool::unmark(int32_t block) {
  const auto index = static_cast<size_t>(block);
  if (marked_[index] == 0) return;
  marked_[index] = 0;
  if (count_[index] > 0) return;
  remove_lru(block);
  free_.push_back(block);
}

void BlockPool::append_lru(int32_t block) {
  const auto index = static_cast<size_t>(block);
  older_[index] = newest_;
  newer_[index] = kNone;
  (newest_ == kNone ? oldest_ : newer_[static_cast<size_t>(newest_)]) = block;
  newest_ = block;
  ++cached_;
}

void BlockPool::remove_lru(int32_t block) {
  const auto index = static_cast<size_t>(block);
  const int32_t older = older_[index], newer = newer_[index];
  (older == kNone ? oldest_ : newer_[static_cast<size_t>(older)]) = newer;
  (newer == kNone ? newest_ : older_[static_cast<size_t>(newer)]) = older;
  older_[index] = newer_[index] = kNone;
  --cached_;
}

bool BlockPool::check(std::string* what) const {
  enum : uint8_t { kUnseen, kFree, kCached };
  std::vector<uint8_t> seen(count_.size(), kUnseen);
  const auto broken = [&](const std::string& text) {
    if (what != nullptr) *what = text;
    return false;
  };
  for (int32_t block : free_) {
    const auto index = static_cast<size_t>(block);
    if (seen[index] != kUnseen) return broken("block " + std::to_string(block) + " is free twice");
    if (count_[index] != 0) return broken("block " + std::to_string(block) + " is free and referenced");
    seen[index] = kFree;
  }
  int32_t cached = 0, previous = kNone;
  for (int32_t block = oldest_; block != kNone; block = newer_[static_cast<size_t>(block)]) {
    const auto index = static_cast<size_t>(block);
    if (seen[index] != kUnseen) return broken("block " + std::to_string(block) + " is cached and elsewhere");
    if (count_[index] != 0) return broken("block " + std::to_string(block) + " is cached and referenced");
    if (marked_[index] == 0) return broken("block " + std::to_string(block) + " is cached but not marked");
    if (older_[index] != previous) return broken("the LRU list is torn at block " + std::to_string(block));
    seen[index] = kCached;
    previous = block;
    ++cached;
  }
  int32_t referenced = 0;
  for (size_t index = 0; index < count_.size(); ++index) {
    if (count_[index] > 0) ++referenced;
    if (count_[index] <= 0 && seen[index] == kUnseen)
      return broken("block " + std::to_string(index) + " is in no state");
  }
  if (cached != cached_ || referenced != referenced_)
    return broken("counters: cached " + std::to_string(cached_) + " of " + std::to_string(cached) +
                  ", referenced " + std::to_string(referenced_) + " of " + std::to_string(referenced));
  if (free() + cached_ + referenced_ != total()) return broken("free + cached + referenced != total");
  return true;
}

}  // namespace slipstream
