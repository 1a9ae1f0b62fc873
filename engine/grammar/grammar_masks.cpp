// Walks of the token trie with a grammar's automaton.
#include "engine/grammar/grammar_masks.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace slipstream::grammar {

namespace {

constexpr size_t kKeyWords = 1024;  // readings with more on their stacks are computed each time

void set_bit(std::vector<uint32_t>* bits, int32_t token) { (*bits)[static_cast<size_t>(token) / 32] |= 1u << (token % 32); }

}  // namespace

TokenSet::TokenSet(const std::vector<uint32_t>& bits) {
  size_t count = 0;
  for (const uint32_t word : bits) count += static_cast<size_t>(__builtin_popcount(word));
  if (count >= bits.size()) {
    bits_ = bits;
    return;
  }
  ids_.reserve(count);
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint32_t word = bits[w]; word != 0; word &= word - 1)
      ids_.push_back(static_cast<int32_t>(w * 32) + __builtin_ctz(word));
}

void TokenSet::add_to(std::vector<uint32_t>* bits) const {
  for (size_t w = 0; w < bits_.size(); ++w) (*bits)[w] |= bits_[w];
  for (const int32_t id : ids_) set_bit(bits, id);
}

void TokenSet::narrow(std::span<uint32_t> mask, std::span<const int32_t> extra) const {
  const auto has = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) / 32 < mask.size() && (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
  };
  std::vector<int32_t> kept;
  for (const int32_t id : extra)
    if (has(id)) kept.push_back(id);
  const size_t words = std::min(mask.size(), bits_.size());
  for (size_t w = 0; w < words; ++w) mask[w] &= bits_[w];
  if (bits_.empty())
    for (const int32_t id : ids_)
      if (has(id)) kept.push_back(id);
  std::fill(mask.begin() + static_cast<std::ptrdiff_t>(words), mask.end(), 0u);
  for (const int32_t id : kept) mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
}

int64_t TokenSet::bytes() const { return static_cast<int64_t>(sizeof(*this) + (ids_.capacity() + bits_.capacity()) * 4); }

/// One walk: which nodes of a part of the trie can be read from a reading. Nearly all of a walk has one top in a plain state,
/// so that case goes by tables of next states and touches no stack.
class GrammarMasks::Walk {
 public:
  Walk(const TokenTrie& trie, Stacks& stacks, MaskCredit* credit, std::vector<uint32_t>* bits)
      : trie_(trie), stacks_(stacks), pushdown_(stacks.pushdown()), credit_(credit), bits_(bits) {}

  /// Nodes from `first` up to `last`, whose parent stands at `start`. With `exits`: nodes where the reading is complete.
  void run(const Reading& start, uint32_t first, uint32_t last, std::vector<uint32_t>* exits) {
    const std::vector<TokenTrie::Node>& nodes = trie_.nodes();
    if (first >= last) return;
    const size_t base = nodes[first].depth;
    level(0).reading = start;
    settle(&levels_[0]);
    for (uint32_t i = first; i < last;) {
      const TokenTrie::Node& node = nodes[i];
      if ((credit_->spent() && node.depth > 1) || (pushdown_.horizon > 0 && node.depth > pushdown_.horizon)) {
        i = node.skip;
        continue;
      }
      const size_t depth = node.depth - base;
      Level& to = level(depth + 1);  // may move the levels: before the other reference
      if (!advance(levels_[depth], node.byte, &to)) {
        i = node.skip;
        continue;
      }
      for (int32_t token = node.token; token >= 0; token = trie_.same_bytes(token)) set_bit(bits_, token);
      const bool complete = to.row == nullptr && to.reading.complete;
      if (complete && exits != nullptr && node.skip > i + 1) exits->push_back(i);
      i = to.row == nullptr && to.reading.tops.empty() ? node.skip : i + 1;
    }
  }

 private:
  using Row = std::array<uint32_t, 256>;
  struct Level {
    Reading reading;           // where row is null
    const Row* row = nullptr;  // of the only top's state
    uint32_t frame = 0;
  };

  Level& level(size_t at) {
    if (levels_.size() <= at) levels_.resize(at + 1);
    return levels_[at];
  }

  bool advance(const Level& from, uint8_t byte, Level* to) {
    credit_->steps -= from.row != nullptr ? 1 : static_cast<int64_t>(from.reading.tops.size());
    if (from.row == nullptr) {
      stacks_.advance(from.reading, byte, &to->reading);
    } else {
      const uint32_t next = (*from.row)[byte];
      if (next == kNoState) return false;
      if (pushdown_.states[next].plain) {
        to->row = row(next);
        to->frame = from.frame;
        return true;
      }
      stacks_.enter_only(next, from.frame, &to->reading);
    }
    settle(to);
    return to->row != nullptr || !to->reading.dead();
  }

  void settle(Level* level) {
    const Reading& reading = level->reading;
    level->row = nullptr;
    if (reading.complete || reading.tops.size() != 1) return;
    level->row = row(reading.tops[0].state);
    level->frame = reading.tops[0].frame;
  }

  const Row* row(uint32_t state) {
    auto& slot = recent_[state % recent_.size()];
    if (slot.second != nullptr && slot.first == state) return slot.second;
    auto& row = rows_[state];
    if (!row) {
      row = std::make_unique<Row>();
      row->fill(kNoState);
      for (uint32_t i = pushdown_.states[state].first_edge; i < pushdown_.states[state + 1].first_edge; ++i)
        std::fill(row->begin() + pushdown_.edges[i].low, row->begin() + pushdown_.edges[i].high + 1, pushdown_.edges[i].to);
    }
    slot = {state, row.get()};
    return row.get();
  }

  const TokenTrie& trie_;
  Stacks& stacks_;
  const Pushdown& pushdown_;
  MaskCredit* credit_;
  std::vector<uint32_t>* bits_;
  std::vector<Level> levels_;
  std::unordered_map<uint32_t, std::unique_ptr<Row>> rows_;
  std::array<std::pair<uint32_t, const Row*>, 64> recent_{};
};

GrammarMasks::GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)), trie_(std::move(trie)) {}

std::shared_ptr<const GrammarMasks::StateMask> GrammarMasks::state_mask(uint32_t state, MaskCredit* credit) {
  const uint32_t name = grammar_->class_of(state);
  {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(name);
    if (found != states_.end()) return found->second;
  }
  auto mask = std::make_shared<StateMask>();
  std::vector<uint32_t> bits((static_cast<size_t>(trie_->vocab_size()) + 31) / 32, 0);
  // The frames above the state's rule are its own, those below are not known: its bottom is where exits are.
  Stacks stacks(*grammar_);
  Reading start;
  start.tops.push_back({state, Frames::kBottom});
  Walk(*trie_, stacks, credit, &bits).run(start, 0, static_cast<uint32_t>(trie_->nodes().size()), &mask->exits);
  mask->widest = std::max<size_t>(1, stacks.take_widest());
  add_special(state, &bits);
  mask->tokens = TokenSet(bits);
  if (credit->spent()) return mask;  // not all of it: not for others
  const int64_t size = mask->tokens.bytes() + static_cast<int64_t>(mask->exits.capacity() * 4 + 96);
  const std::lock_guard lock(mutex_);
  make_room(size);
  if (states_.try_emplace(name, mask).second) held_ += size;
  return mask;
}

/// The reading as numbers: for each top its state's class and the classes of all states to return to. False when too long.
bool GrammarMasks::key_of(const Stacks& stacks, const Reading& reading, std::u32string* key) const {
  const Frames& frames = stacks.frames();
  for (const Reading::Top& top : reading.tops) {
    key->push_back(grammar_->class_of(top.state));
    for (uint32_t frame = top.frame; frame != Frames::kBottom; frame = frames.below(frame))
      key->push_back(grammar_->class_of(frames.return_state(frame)));
    key->push_back(UINT32_MAX);
    if (key->size() > kKeyWords) return false;
  }
  return true;
}

void GrammarMasks::make_room(int64_t bytes) {
  if (held_ + bytes <= limits::kGrammarMaskBytes) return;
  states_.clear();
  readings_.clear();
  held_ = 0;
}

void GrammarMasks::add_special(uint32_t state, std::vector<uint32_t>* bits) const {
  for (uint32_t i = grammar_->states[state].first_token; i < grammar_->states[state + 1].first_token; ++i)
    if (grammar_->tokens[i].token < trie_->vocab_size()) set_bit(bits, grammar_->tokens[i].token);
}

bool GrammarMasks::add_apart(Stacks& stacks, const Reading& reading, MaskCredit* credit, std::vector<uint32_t>* bits) {
  for (const Reading::Top& top : reading.tops)
    if (stacks.frames().depth(top.frame) > limits::kGrammarStackDepth / 2) return false;
  Walk walk(*trie_, stacks, credit, bits);
  size_t widest = 0;
  for (const Reading::Top& top : reading.tops) {
    const auto mask = state_mask(top.state, credit);
    mask->tokens.add_to(bits);
    stacks.take_widest();
    if (top.frame != Frames::kBottom && !mask->exits.empty()) {
      Reading behind;
      stacks.after_return(top.frame, &behind);
      if (!behind.tops.empty())
        for (const uint32_t exit : mask->exits) walk.run(behind, exit + 1, trie_->nodes()[exit].skip, nullptr);
    }
    widest += mask->widest + stacks.take_widest();
    if (widest > static_cast<size_t>(limits::kGrammarStacks)) return false;
  }
  return true;
}

void GrammarMasks::add_together(Stacks& stacks, const Reading& reading, MaskCredit* credit, std::vector<uint32_t>* bits) {
  Walk(*trie_, stacks, credit, bits).run(reading, 0, static_cast<uint32_t>(trie_->nodes().size()), nullptr);
  for (const Reading::Top& top : reading.tops) add_special(top.state, bits);
}

std::shared_ptr<const TokenSet> GrammarMasks::tokens(Stacks& stacks, const Reading& reading, MaskCredit* credit) {
  std::u32string key;
  const bool kept = key_of(stacks, reading, &key);
  if (kept) {
    const std::lock_guard lock(mutex_);
    const auto found = readings_.find(key);
    if (found != readings_.end()) return found->second;
  }
  std::vector<uint32_t> bits((static_cast<size_t>(trie_->vocab_size()) + 31) / 32, 0);
  if (!add_apart(stacks, reading, credit, &bits)) {
    std::fill(bits.begin(), bits.end(), 0u);
    add_together(stacks, reading, credit, &bits);
  }
  auto set = std::make_shared<TokenSet>(bits);
  if (!kept || credit->spent()) return set;
  const int64_t size = set->bytes() + static_cast<int64_t>(key.size() * 4 + 96);
  const std::lock_guard lock(mutex_);
  make_room(size);
  if (readings_.try_emplace(std::move(key), set).second) held_ += size;
  return set;
}

void GrammarMasks::prepare(int milliseconds) {
  constexpr int kWide = 64;  // bytes: inside strings and free text, where most of the vocabulary fits
  constexpr int kMasks = 24;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  int made = 0;
  for (uint32_t s = 0; s < grammar_->state_count() && made < kMasks; ++s) {
    int bytes = 0;
    for (uint32_t i = grammar_->states[s].first_edge; i < grammar_->states[s + 1].first_edge; ++i)
      bytes += grammar_->edges[i].high - grammar_->edges[i].low + 1;
    if (bytes < kWide) continue;
    if (std::chrono::steady_clock::now() > until) return;
    MaskCredit credit{1 << 22};
    state_mask(s, &credit);
    ++made;
  }
}

}  // namespace slipstream::grammar
