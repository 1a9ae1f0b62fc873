// One list of grammars, newest first, and the compilations that are running.
#include "engine/grammar/grammar_cache.h"

#include <chrono>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_masks.h"

namespace slipstream::grammar {

/// A compilation that others wait for.
struct GrammarCache::Pending {
  bool done = false;
  std::string param;
  std::optional<Error> error;
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

/// What others have compiled or are compiling; nothing when it is this thread's turn, which then stands in pending_.
std::optional<Result<std::shared_ptr<GrammarMasks>>> GrammarCache::found_or_mine(const Format& format, const std::string& key) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(limits::kGrammarCompileMs);
  std::unique_lock lock(mutex_);
  while (true) {
    if (auto found = kept(key)) return found;
    const auto running = pending_.find(key);
    if (running != pending_.end()) {
      const std::shared_ptr<Pending> pending = running->second;
      done_.wait(lock, [&] { return pending->done; });
      if (!pending->error) continue;  // kept now, or already dropped again
      Error error = *pending->error;
      // The same text came with another field's name: the place below that field is the same.
      if (error.param.starts_with(pending->param)) error.param = format.param + error.param.substr(pending->param.size());
      return error;
    }
    if (pending_.size() < static_cast<size_t>(limits::kGrammarCompilesAtOnce)) break;
    if (done_.wait_until(lock, until) == std::cv_status::timeout)
      return Error{ErrorCode::kResourceExhausted, "other grammars are being compiled; try again", format.param};
  }
  const auto pending = std::make_shared<Pending>();
  pending->param = format.param;
  pending_[key] = pending;
  ++compiles_;
  return std::nullopt;
}

Result<std::shared_ptr<GrammarMasks>> GrammarCache::compiled(const Format& format) {
  const std::string key = format.key();
  if (auto found = found_or_mine(format, key)) return *std::move(found);
  const auto grammar = compile(format);
  std::shared_ptr<GrammarMasks> masks;
  if (grammar.ok()) {
    masks = std::make_shared<GrammarMasks>(*grammar, trie());
    masks->prepare(/*milliseconds=*/100);
  }
  const std::lock_guard lock(mutex_);
  const auto pending = pending_.extract(key).mapped();
  pending->done = true;
  if (masks) keep(key, masks);
  else pending->error = grammar.error();
  done_.notify_all();
  if (!masks) return grammar.error();
  return masks;
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
