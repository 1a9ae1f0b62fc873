// Which blocks hold a sequence's K/V: one column of block ids per cache group. A value; knows no pool and no bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace slipstream {

struct BlockTable {
  explicit BlockTable(int32_t groups = 1) : columns(static_cast<size_t>(groups)) {}

  std::vector<int32_t>& column(int32_t group) { return columns[static_cast<size_t>(group)]; }
  const std::vector<int32_t>& column(int32_t group) const { return columns[static_cast<size_t>(group)]; }
  /// Tokens that fit: the shortest column decides.
  int32_t capacity_tokens(int32_t block_tokens) const {
    size_t shortest = columns.empty() ? 0 : columns[0].size();
    for (const auto& ids : columns) shortest = ids.size() < shortest ? ids.size() : shortest;
    return static_cast<int32_t>(shortest) * block_tokens;
  }
  void clear() {
    for (auto& ids : columns) ids.clear();
  }

  std::vector<std::vector<int32_t>> columns;  // [groups] of ids in token order
};

/// Blocks that hold `tokens` tokens.
inline int32_t blocks_for(int64_t tokens, int32_t block_tokens) {
  return static_cast<int32_t>((tokens + block_tokens - 1) / block_tokens);
}

}  // namespace slipstream
