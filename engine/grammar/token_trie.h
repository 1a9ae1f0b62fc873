// The vocabulary as a tree of bytes. Control tokens and end tokens are not in it: no text matches them. Const and shared
// between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/text/tokenizer.h"

namespace slipstream::grammar {

class TokenTrie {
 public:
  /// A byte string that begins some token, in depth-first order: a node's descendants follow it, up to `skip`.
  struct Node {
    uint32_t skip;       // the next node that is not below this one
    int32_t token;       // of exactly these bytes, -1: none; others of the same bytes by same_bytes()
    uint16_t depth;      // bytes, from 1
    uint8_t byte;        // the last of them
  };

  explicit TokenTrie(const Tokenizer& tokenizer);

  const std::vector<Node>& nodes() const { return nodes_; }
  int32_t vocab_size() const { return static_cast<int32_t>(same_.size()); }
  /// The next token of the same bytes, -1: none.
  int32_t same_bytes(int32_t token) const { return same_[static_cast<size_t>(token)]; }
  /// -1: none.
  int32_t node_of(std::string_view bytes) const;
  const std::vector<int32_t>& end_tokens() const { return ends_; }
  bool is_end(int32_t token) const;

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> same_;
  std::vector<int32_t> ends_;
};

}  // namespace slipstream::grammar
