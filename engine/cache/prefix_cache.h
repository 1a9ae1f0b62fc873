// Finds blocks whose K/V was computed for the same tokens after the same prefix in the same partition. Engine thread
// only. Knows tokens and ids, no bytes.
//
// Every published block gets an id that is never used again; a block's key is the hash of (salt, parent's id, its
// tokens), and a hit compares all three, so a hash collision cannot serve a foreign block.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/cache/block_pool.h"

namespace slipstream {

class PrefixCache {
 public:
  /// Borrows the pool and takes its eviction callback.
  PrefixCache(BlockPool* pool, int32_t block_tokens);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Hit {
    std::vector<int32_t> blocks;       // leading full blocks, in order
    std::vector<uint64_t> published;   // their ids
  };
  /// The longest run of leading full blocks of `tokens` that leaves at least the last token to compute. Takes no
  /// reference.
  Hit find(std::string_view salt, std::span<const int32_t> tokens) const;

  /// Publishes one full block after `parent` (0: the first block) and returns its id. When an equal block is there
  /// already, that one's id is returned and `block` stays private.
  uint64_t publish(std::string_view salt, uint64_t parent, std::span<const int32_t> tokens, int32_t block);

  /// The block will never be hit again.
  void forget(int32_t block);

  int32_t entries() const { return static_cast<int32_t>(by_hash_.size()); }

 private:
  struct Entry {
    uint64_t id = 0;  // 0: not published
    uint64_t parent = 0;
    uint64_t hash = 0;
    std::string salt;
    std::vector<int32_t> tokens;
  };
  uint64_t hash(std::string_view salt, uint64_t parent, std::span<const int32_t> tokens) const;
  /// Block with that content, or -1.
  int32_t lookup(uint64_t key, std::string_view salt, uint64_t parent, std::span<const int32_t> tokens) const;
  void drop(int32_t block);

  BlockPool* const pool_;
  const int32_t block_tokens_;
  uint64_t next_id_ = 1;
  std::vector<Entry> entries_;                          // [blocks]
  std::unordered_multimap<uint64_t, int32_t> by_hash_;  // hash -> block
};

}  // namespace slipstream
