// Short words: look for the lowest rank and join, again and again, which is fastest for a few symbols. Long ones: a
// queue per rank over a linked list, so that a run of a million equal letters costs a few passes.
#include "engine/text/merges.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "kernels/check.h"

namespace slipstream {
namespace {

constexpr size_t kFewSymbols = 64;

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t mix(uint64_t value) {  // the finalizer of MurmurHash3
  value ^= value >> 33;
  value *= 0xFF51AFD7ED558CCDULL;
  value ^= value >> 33;
  value *= 0xC4CEB9FE1A85EC53ULL;
  return value ^ value >> 33;
}

/// Positions waiting for one rank, smallest first. Most arrive in order and only move a cursor; the others go through
/// a heap.
class Positions {
 public:
  bool empty() const { return next_ == ordered_.size() && late_.empty(); }
  void push(uint32_t position) {
    if (ordered_.empty() || position >= ordered_.back()) {
      ordered_.push_back(position);
    } else {
      late_.push_back(position);
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
    }
  }
  uint32_t pop() {
    uint32_t position;
    if (late_.empty() || (next_ < ordered_.size() && ordered_[next_] <= late_.front())) {
      position = ordered_[next_++];
    } else {
      std::pop_heap(late_.begin(), late_.end(), std::greater<>());
      position = late_.back();
      late_.pop_back();
    }
    if (next_ == ordered_.size()) {
      ordered_.clear();
      next_ = 0;
    }
    return position;
  }

 private:
  std::vector<uint32_t> ordered_;
  size_t next_ = 0;
  std::vector<uint32_t> late_;
};

/// Ranks with waiting positions.
class RankQueue {
 public:
  void push(uint32_t rank, uint32_t position) {
    auto [entry, added] = waiting_.try_emplace(rank);
    if (added) ranks_.push(rank);
    entry->second.push(position);
  }
  bool empty() const { return ranks_.empty(); }
  struct Item {
    uint32_t rank;
    uint32_t position;
  };
  Item pop() {
    const uint32_t rank = ranks_.top();
    const auto entry = waiting_.find(rank);
    const uint32_t position = entry->second.pop();
    if (entry->second.empty()) {
      waiting_.erase(entry);
      ranks_.pop();
    }
    return {rank, position};
  }

 private:
  std::unordered_map<uint32_t, Positions> waiting_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;
};

}  // namespace

MergeTable::MergeTable(size_t expected) {
  size_t capacity = 16;
  while (capacity < expected * 2) capacity *= 2;
  slots_.resize(capacity);
}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = mix(pair) & (slots_.size() - 1);
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::grow(size_t capacity) {
  std::vector<Slot> old(capacity);
  old.swap(slots_);
  for (const Slot& slot : old)
    if (slot.pair != kFree) slots_[slot_of(slot.pair)] = slot;
}

bool MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t result) {
  CHECK(left >= 0 && right >= 0 && result >= 0 && rank != kNever, "a merge of ids and rank");
  if (slots_.size() < (count_ + 1) * 3 / 2) grow(slots_.size() * 2);
  Slot& slot = slots_[slot_of(pair_of(left, right))];
  if (slot.pair != kFree) return false;
  slot = {pair_of(left, right), {rank, result}};
  ++count_;
  return true;
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return {kNever, -1};
  const Slot& slot = slots_[slot_of(pair_of(left, right))];
  return slot.pair == kFree ? Merge{kNever, -1} : slot.merge;
}

void merge_symbols(const MergeTable& table, std::vector<Symbol>* symbols) {
  if (symbols->size() <= kFewSymbols)
    merge_few(table, symbols);
  else
    merge_many(table, symbols);
}

void merge_few(const MergeTable& table, std::vector<Symbol>* symbols) {
  std::vector<Symbol>& s = *symbols;
  if (s.size() < 2) return;
  std::vector<MergeTable::Merge> merges(s.size() - 1);  // of symbols i and i + 1
  for (size_t i = 0; i + 1 < s.size(); ++i) merges[i] = table.find(s[i].id, s[i + 1].id);
  while (!merges.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < merges.size(); ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == MergeTable::kNever) return;
    s[best].id = merges[best].result;
    const auto at = static_cast<ptrdiff_t>(best);
    s.erase(s.begin() + at + 1);
    merges.erase(merges.begin() + at);
    if (best > 0) merges[best - 1] = table.find(s[best - 1].id, s[best].id);
    if (best < merges.size()) merges[best] = table.find(s[best].id, s[best + 1].id);
  }
}

void merge_many(const MergeTable& table, std::vector<Symbol>* symbols) {
  std::vector<Symbol>& s = *symbols;
  struct Node {
    uint32_t previous;
    uint32_t next;
    MergeTable::Merge with_next;  // rank kNever: none, or no longer the head of a symbol
  };
  const auto size = checked_cast<uint32_t>(s.size());
  std::vector<Node> nodes(size);
  RankQueue queue;
  const auto meet = [&](uint32_t left) {
    Node& node = nodes[left];
    node.with_next = node.next == size ? MergeTable::Merge{MergeTable::kNever, -1}
                                       : table.find(s[left].id, s[node.next].id);
    if (node.with_next.rank != MergeTable::kNever) queue.push(node.with_next.rank, left);
  };
  for (uint32_t i = 0; i < size; ++i) nodes[i] = {i == 0 ? size : i - 1, i + 1, {MergeTable::kNever, -1}};
  for (uint32_t i = 0; i < size; ++i) meet(i);
  while (!queue.empty()) {
    const auto [rank, left] = queue.pop();
    Node& node = nodes[left];
    if (node.with_next.rank != rank) continue;  // its symbols have changed since
    const uint32_t right = node.next;
    s[left].id = node.with_next.result;
    node.next = nodes[right].next;
    if (node.next != size) nodes[node.next].previous = left;
    nodes[right].with_next = {MergeTable::kNever, -1};
    if (node.previous != size) meet(node.previous);
    meet(left);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < size; i = nodes[i].next) s[kept++] = s[i];
  s.resize(kept);
}

}  // namespace slipstream
