// Tokens that are matched as whole strings before anything else: control tokens, user-defined tokens. Owns their
// trie; knows nothing of words or merges.
//
// Const and shared between threads once filled.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/pattern.h"

namespace slipstream {

struct AddedToken {
  int32_t id = -1;
  std::string content;       // not empty
  bool special = false;
  bool normalized = false;   // matched in the text after normalization
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;
  bool single_word = false;  // not when a word character touches it
};

/// May stand in user text: neither special nor spelled like a marker. White-space runs and plain letters are, which
/// some vocabularies add for compression; <think>, [INST] or <|user|> are not, "special" or not. The test is a bracket
/// or bar in the content.
bool is_plain(const AddedToken& token);

class AddedTokens {
 public:
  struct Match {
    size_t begin;  // with stripped white space
    size_t end;
    int32_t id;
  };

  /// Contents longer than this are refused by the loaders: a scan costs its length at each byte.
  static constexpr size_t kMaxContentBytes = 4096;

  AddedTokens();
  void add(AddedToken token);
  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// -1 when none has this content.
  int32_t find(std::string_view content) const;

  /// Leftmost, then longest matches. A token that is not plain matches only inside one of the `trusted` ranges
  /// (sorted, apart from each other).
  std::vector<Match> matches(std::string_view text, const std::vector<Pattern::Range>& trusted) const;

 private:
  struct Edge {
    uint8_t byte;
    int32_t node;
  };
  struct Node {
    std::vector<Edge> edges;  // sorted by byte
    int32_t token = -1;       // index into tokens_
  };
  int32_t child(int32_t node, uint8_t byte) const;
  const AddedToken* longest_at(std::string_view text, size_t at, size_t trusted_end) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> starts_{};
};

}  // namespace slipstream
