#include "engine/grammar/grammar_cache.h"

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_masks.h"

namespace slipstream::grammar {

/// A compilation that others wait for.
struct GrammarCache::Pending {
  bool done = false;
  Result<std::shared_ptr<GrammarMasks>> result = internal_error("not compiled yet");
};

GrammarCache::GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, int64_t bytes)
    : tokenizer_(std::move(tokenizer)), bytes_(bytes) {}

GrammarCache::~GrammarCache() = default;

const std::shared_ptr<const TokenTrie>& GrammarCache::trie() {
  std::call_once(trie_built_, [this] { trie_ = std::make_shared<const TokenTrie>(*tokenizer_); });
  return trie_;
}

Result<std::shared_ptr<const ConstraintSpec>> GrammarCache::constraint(const Format& format) {
  SLIP_TRY(std::shared_ptr<GrammarMasks> masks, compiled(format));
  return std::shared_ptr<const ConstraintSpec>(std::make_shared<GrammarSpec>(std::move(masks), tokenizer_));
}

Result<std::shared_ptr<GrammarMasks>> GrammarCache::compiled(const Format& format) {
  const std::string key = format.key();
  std::shared_ptr<Pending> pending;
  {
    std::unique_lock lock(mutex_);
    if (auto found = kept(key)) return found;
    const auto running = pending_.find(key);
    if (running != pending_.end()) {
      // Its error may name another param, if the first asked with one: only the value is shared.
      pending = running->second;
      done_.wait(lock, [&] { return pending->done; });
      if (pending->result.ok()) {
        ++hits_;
        return pending->result;
      }
      lock.unlock();
      SLIP_TRY(const std::shared_ptr<const Grammar> grammar, compile(format));
      return std::make_shared<GrammarMasks>(grammar, trie());
    }
    if (pending_.size() >= static_cast<size_t>(limits::kGrammarCompilesAtOnce))
      return Error{ErrorCode::kResourceExhausted,
                   std::to_string(limits::kGrammarCompilesAtOnce) + " grammars are being compiled; try again", format.param};
    pending = pending_[key] = std::make_shared<Pending>();
    ++compiles_;
  }
  auto grammar = compile(format);
  Result<std::shared_ptr<GrammarMasks>> result = grammar.ok()
      ? Result<std::shared_ptr<GrammarMasks>>(std::make_shared<GrammarMasks>(*grammar, trie()))
      : Result<std::shared_ptr<GrammarMasks>>(grammar.error());
  if (result.ok()) (*result)->prepare(/*milliseconds=*/100);
  const std::lock_guard lock(mutex_);
  if (result.ok()) keep(key, *result);
  pending->result = result;
  pending->done = true;
  pending_.erase(key);
  done_.notify_all();
  return result;
}

std::shared_ptr<GrammarMasks> GrammarCache::kept(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  ++hits_;
  entries_.splice(entries_.begin(), entries_, found->second);
  trim();
  return found->second->masks;
}

/// Masks grow while they are used, so every call looks.
void GrammarCache::trim() {
  while (entries_.size() > 1 && held_bytes() > bytes_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void GrammarCache::keep(const std::string& key, std::shared_ptr<GrammarMasks> masks) {
  entries_.push_front({key, std::move(masks)});
  by_key_[key] = entries_.begin();
  trim();
}

int64_t GrammarCache::held_bytes() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.masks->bytes() + static_cast<int64_t>(2 * entry.key.size());
  return sum;
}

GrammarCache::Stats GrammarCache::stats() const {
  const std::lock_guard lock(mutex_);
  return {hits_, compiles_, static_cast<int64_t>(entries_.size()), held_bytes()};
}

}  // namespace slipstream::grammar
