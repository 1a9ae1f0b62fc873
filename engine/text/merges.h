// Byte-pair merging: which neighbours join, in what order, and the near-linear loop that does it. Knows ids and ranks
// only.
//
// Const and shared between threads once filled; the symbols belong to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream {

/// Pair of ids -> rank (lower joins first) and the id that results.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t result;
  };
  static constexpr uint32_t kNever = UINT32_MAX;

  explicit MergeTable(size_t expected = 0);
  /// The first rank given for a pair stays. False when the pair was known.
  bool add(int32_t left, int32_t right, uint32_t rank, int32_t result);
  /// rank kNever when the pair does not join. Negative ids never join.
  Merge find(int32_t left, int32_t right) const;
  size_t size() const { return count_; }

 private:
  struct Slot {
    uint64_t pair = kFree;
    Merge merge{};
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  void grow(size_t capacity);
  size_t slot_of(uint64_t pair) const;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

/// A symbol of a word while it is merged.
struct Symbol {
  int32_t id = -1;     // -1: in no merge
  uint32_t begin = 0;  // its first byte in the word
};

/// Joins neighbours until none is in the table: lowest rank first, leftmost among equals. In place; near-linear in the
/// number of symbols.
void merge_symbols(const MergeTable& table, std::vector<Symbol>* symbols);

/// The two ways merge_symbols works; equal results. Public for the test that compares them.
void merge_few(const MergeTable& table, std::vector<Symbol>* symbols);
void merge_many(const MergeTable& table, std::vector<Symbol>* symbols);

}  // namespace slipstream
