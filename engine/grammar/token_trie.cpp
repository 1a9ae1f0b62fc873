#include "engine/grammar/token_trie.h"

#include <algorithm>

namespace slipstream::grammar {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : ends_(tokenizer.eos_ids()) {
  constexpr size_t kLongest = UINT16_MAX;
  struct Entry {
    std::string_view bytes;
    int32_t token;
  };
  std::vector<Entry> entries;
  const int32_t count = tokenizer.vocab_size();
  same_.assign(static_cast<size_t>(count), -1);
  for (int32_t token = 0; token < count; ++token) {
    const std::string_view bytes = tokenizer.token_bytes(token);
    if (!bytes.empty() && bytes.size() <= kLongest && !tokenizer.is_special(token) && !is_end(token))
      entries.push_back({bytes, token});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });

  // Sorted, each entry shares a prefix with the one before it: the nodes behind that prefix are new.
  std::vector<uint32_t> path;
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].skip = static_cast<uint32_t>(nodes_.size());
  };
  for (const Entry& entry : entries) {
    if (!before.empty() && entry.bytes == before) {
      int32_t last = nodes_[path.back()].token;
      while (same_[static_cast<size_t>(last)] >= 0) last = same_[static_cast<size_t>(last)];
      same_[static_cast<size_t>(last)] = entry.token;
      continue;
    }
    const auto shared = static_cast<size_t>(
        std::mismatch(before.begin(), before.end(), entry.bytes.begin(), entry.bytes.end()).first - before.begin());
    close(shared);
    for (size_t i = shared; i < entry.bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, -1, static_cast<uint16_t>(i + 1), static_cast<uint8_t>(entry.bytes[i])});
    }
    nodes_[path.back()].token = entry.token;
    before = entry.bytes;
  }
  close(0);
}

bool TokenTrie::is_end(int32_t token) const { return std::find(ends_.begin(), ends_.end(), token) != ends_.end(); }

int32_t TokenTrie::node_of(std::string_view bytes) const {
  auto first = uint32_t{0}, last = static_cast<uint32_t>(nodes_.size());
  int32_t found = -1;
  for (const char byte : bytes) {
    uint32_t at = first;
    while (at < last && nodes_[at].byte != static_cast<uint8_t>(byte)) at = nodes_[at].skip;
    if (at >= last) return -1;
    found = static_cast<int32_t>(at);
    first = at + 1;
    last = nodes_[at].skip;
  }
  return found;
}

}  // namespace slipstream::grammar
