#include "engine/cache/prefix_cache.h"

#include <algorithm>

#include "kernels/check.h"

namespace slipstream {

PrefixCache::PrefixCache(BlockPool* pool, int32_t block_tokens)
    : pool_(pool), block_tokens_(block_tokens), entries_(static_cast<size_t>(pool->total())) {
  by_hash_.reserve(entries_.size());
  pool_->on_evict([this](int32_t block) { drop(block); });
}

uint64_t PrefixCache::hash(std::string_view salt, uint64_t parent, std::span<const int32_t> tokens) const {
  // FNV-1a over words, finished by a 64-bit avalanche (the constants of splitmix64).
  uint64_t state = 0xcbf29ce484222325ull;
  const auto add = [&](uint64_t word) { state = (state ^ word) * 0x100000001b3ull; };
  for (char byte : salt) add(static_cast<uint8_t>(byte));
  add(parent);
  for (int32_t token : tokens) {
    add(static_cast<uint32_t>(token));
    state ^= state >> 29;
  }
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
  return state ^ (state >> 31);
}

int32_t PrefixCache::lookup(uint64_t key, std::string_view salt, uint64_t parent,
                            std::span<const int32_t> tokens) const {
  const auto [first, last] = by_hash_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    const Entry& entry = entries_[static_cast<size_t>(it->second)];
    if (entry.parent == parent && entry.salt == salt && std::ranges::equal(entry.tokens, tokens)) return it->second;
  }
  return -1;
}

PrefixCache::Hit PrefixCache::find(std::string_view salt, std::span<const int32_t> tokens) const {
  Hit hit;
  const size_t step = static_cast<size_t>(block_tokens_);
  uint64_t parent = 0;
  for (size_t start = 0; start + step < tokens.size(); start += step) {
    const auto content = tokens.subspan(start, step);
    const int32_t block = lookup(hash(salt, parent, content), salt, parent, content);
    if (block < 0) break;
    parent = entries_[static_cast<size_t>(block)].id;
    hit.blocks.push_back(block);
    hit.published.push_back(parent);
  }
  return hit;
}

uint64_t PrefixCache::publish(std::string_view salt, uint64_t parent, std::span<const int32_t> tokens,
                              int32_t block) {
  CHECK(static_cast<int32_t>(tokens.size()) == block_tokens_, "only full blocks are published");
  const uint64_t key = hash(salt, parent, tokens);
  if (const int32_t present = lookup(key, salt, parent, tokens); present >= 0)
    return entries_[static_cast<size_t>(present)].id;
  Entry& entry = entries_[static_cast<size_t>(block)];
  CHECK(entry.id == 0, "a block is published once");
  entry = {next_id_++, parent, key, std::string(salt), {tokens.begin(), tokens.end()}};
  by_hash_.emplace(key, block);
  pool_->mark(block);
  return entry.id;
}

void PrefixCache::forget(int32_t block) {
  if (entries_[static_cast<size_t>(block)].id == 0) return;
  drop(block);
  pool_->unmark(block);
}

void PrefixCache::drop(int32_t block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  const auto [first, last] = by_hash_.equal_range(entry.hash);
  for (auto it = first; it != last; ++it) {
    if (it->second != block) continue;
    by_hash_.erase(it);
    break;
  }
  entry = {};
}

}  // namespace slipstream
