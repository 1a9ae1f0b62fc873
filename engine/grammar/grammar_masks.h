// Which tokens may come next, for one grammar and one vocabulary. Owns the masks that sequences share; knows no sequence.
//
// A state's tokens fall in three: those that end inside its rule, which depend on the state alone; those that cannot come;
// and those that go past the rule's end, which depend on what called the rule. The first are kept for each state, the last
// as the places of the trie where the rule may have ended ("exits"), to be followed when the callers are known. The
// result for a whole reading is kept too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/matcher.h"
#include "engine/grammar/token_trie.h"

namespace slipstream::grammar {

/// A set of token ids: listed when small, else a bit for each.
class TokenSet {
 public:
  TokenSet() = default;
  /// From bits [ceil(vocab / 32)].
  explicit TokenSet(const std::vector<uint32_t>& bits);
  void add_to(std::vector<uint32_t>* bits) const;
  /// Clears the bits of all others. `extra` are in the set as well.
  void narrow(std::span<uint32_t> mask, std::span<const int32_t> extra) const;
  int64_t bytes() const;

 private:
  std::vector<int32_t> ids_;
  std::vector<uint32_t> bits_;
};

/// Steps of automata that a mask may cost. A mask that runs out of them is smaller than it could be, but never without the
/// tokens of one byte.
struct MaskCredit {
  int64_t steps = 0;
  bool spent() const { return steps <= 0; }
};

/// Thread-safe.
class GrammarMasks {
 public:
  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  const Grammar& grammar() const { return *grammar_; }
  const TokenTrie& trie() const { return *trie_; }

  /// The tokens that may follow a reading made with `stacks`, but for end tokens.
  std::shared_ptr<const TokenSet> tokens(Stacks& stacks, const Reading& reading, MaskCredit* credit);
  /// Makes the masks of those states that take longest, as far as `milliseconds` go.
  void prepare(int milliseconds);
  /// Of the automaton and all masks.
  int64_t bytes() const { return grammar_->bytes() + held_.load(std::memory_order_relaxed); }

 private:
  struct StateMask {
    TokenSet tokens;
    std::vector<uint32_t> exits;  // nodes with others below them
    size_t widest = 1;            // the most tops on the way
  };
  class Walk;

  /// From the masks of the tops' states. False when that is not exact: where bounds on depth or tops may come into play.
  bool add_apart(Stacks& stacks, const Reading& reading, MaskCredit* credit, std::vector<uint32_t>* bits);
  /// By one walk with the reading itself.
  void add_together(Stacks& stacks, const Reading& reading, MaskCredit* credit, std::vector<uint32_t>* bits);
  void add_special(uint32_t state, std::vector<uint32_t>* bits) const;
  std::shared_ptr<const StateMask> state_mask(uint32_t state, MaskCredit* credit);
  bool key_of(const Stacks& stacks, const Reading& reading, std::u32string* key) const;
  void make_room(int64_t bytes);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, std::shared_ptr<const StateMask>> states_;  // by class
  std::unordered_map<std::u32string, std::shared_ptr<const TokenSet>> readings_;
  std::atomic<int64_t> held_{0};
};

}  // namespace slipstream::grammar
