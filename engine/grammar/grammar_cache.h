// Compiled grammars of one vocabulary, newest kept. What HTTP threads ask for a request's constraint.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "config/limits.h"
#include "engine/base/result.h"
#include "engine/grammar/format.h"
#include "engine/sample/token_constraint.h"
#include "engine/text/tokenizer.h"

namespace slipstream::grammar {

class GrammarMasks;
class TokenTrie;

/// Thread-safe. Grammars are dropped when the newest together hold more than `bytes`, those in use live on.
class GrammarCache {
 public:
  struct Stats {
    int64_t hits = 0;
    int64_t compiles = 0;  // failed ones too
    int64_t entries = 0;
    int64_t bytes = 0;     // automata and masks of what is kept
  };

  /// The trie of the vocabulary is built by the first call that needs it.
  explicit GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, int64_t bytes = limits::kGrammarCacheBytes);
  ~GrammarCache();

  /// Compiles, or finds what was compiled from an equal description. Threads that ask for the same one at the same time
  /// wait for the first of them. The end tokens of the vocabulary may follow a complete output. Errors: compile() in
  /// grammar.h; kResourceExhausted after waiting for others as long
  /// as one compilation may take.
  Result<std::shared_ptr<const ConstraintSpec>> constraint(const Format& format);
  Stats stats() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<GrammarMasks> masks;
  };
  struct Pending;

  Result<std::shared_ptr<GrammarMasks>> compiled(const Format& format);
  std::optional<Result<std::shared_ptr<GrammarMasks>>> found_or_mine(const Format& format, const std::string& key);
  std::shared_ptr<GrammarMasks> kept(const std::string& key);
  void keep(const std::string& key, std::shared_ptr<GrammarMasks> masks);
  void trim();
  int64_t held_bytes() const;
  const std::shared_ptr<const TokenTrie>& trie();

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int64_t bytes_;
  std::once_flag trie_built_;
  std::shared_ptr<const TokenTrie> trie_;

  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::list<Entry> entries_;  // newest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::unordered_map<std::string, std::shared_ptr<Pending>> pending_;
  int64_t hits_ = 0, compiles_ = 0;
};

}  // namespace slipstream::grammar
