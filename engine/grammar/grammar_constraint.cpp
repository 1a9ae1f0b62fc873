#include "engine/grammar/grammar_constraint.h"

#include <algorithm>

#include "engine/base/utf8.h"

namespace slipstream::grammar {

namespace {

// Steps of automata (about 10 ns each) that masks of one choice may cost in all: first masks of a large vocabulary take
// about a million; a grammar whose masks are always new must not hold up the other sequences.
constexpr int64_t kFirstCredit = 48 << 20;
constexpr int64_t kCreditPerToken = 64 << 10;
constexpr size_t kFrames = 1 << 14;
constexpr size_t kForcedBytes = 256;

}  // namespace

GrammarConstraint::GrammarConstraint(std::shared_ptr<GrammarMasks> masks, std::shared_ptr<const Tokenizer> tokenizer)
    : masks_(std::move(masks)), tokenizer_(std::move(tokenizer)), stacks_(masks_->grammar()), credit_{kFirstCredit} {
  stacks_.start();
  now_.reading = stacks_.reading();
}

bool GrammarConstraint::narrow(std::span<uint32_t> mask) {
  if (now_.phase != Phase::kOpen) {
    std::fill(mask.begin(), mask.end(), 0u);
    return true;
  }
  const auto tokens = masks_->tokens(stacks_, now_.reading, &credit_);
  const std::span<const int32_t> ends = masks_->trie().end_tokens();
  tokens->narrow(mask, now_.reading.complete ? ends : std::span<const int32_t>());
  return true;
}

void GrammarConstraint::accept(int32_t token) {
  before_.push_back(now_);
  if (before_.size() > static_cast<size_t>(limits::kGrammarRollbackTokens)) before_.pop_front();
  credit_.steps = std::min(credit_.steps + kCreditPerToken, kFirstCredit);
  if (now_.phase != Phase::kOpen) {
    now_.phase = Phase::kRefused;
    return;
  }
  stacks_.set(now_.reading);
  const std::string_view bytes = tokenizer_->token_bytes(token);
  const bool text = !bytes.empty() && !tokenizer_->is_special(token) && !masks_->trie().is_end(token);
  if (stacks_.read_token(token) || (text && stacks_.read(bytes))) {
    now_.reading = stacks_.reading();
    if (stacks_.frames().size() > kFrames) drop_unused_frames();
    return;
  }
  const bool end = masks_->trie().is_end(token) && now_.reading.complete;
  now_ = {{}, end ? Phase::kEnded : Phase::kRefused};
}

void GrammarConstraint::rollback(int32_t tokens) {
  CHECK(tokens >= 0 && static_cast<size_t>(tokens) <= before_.size(), "a rollback beyond what was accepted");
  if (tokens == 0) return;
  const auto back = before_.end() - tokens;
  now_ = *back;
  before_.erase(back, before_.end());
}

bool GrammarConstraint::ended() const {
  return now_.phase == Phase::kEnded || (now_.phase == Phase::kOpen && now_.reading.complete && now_.reading.tops.empty());
}

/// Bytes that must come, and the reading behind them.
std::string GrammarConstraint::forced_bytes(size_t most, Reading* behind) {
  std::string out;
  Reading next;
  *behind = now_.reading;
  while (out.size() < most) {
    const int byte = stacks_.only_byte(*behind);
    if (byte < 0) break;
    stacks_.advance(*behind, static_cast<uint8_t>(byte), &next);
    if (next.dead()) break;
    out += static_cast<char>(byte);
    std::swap(*behind, next);
  }
  return out;
}

void GrammarConstraint::forced(int32_t limit, std::vector<int32_t>* tokens) {
  if (now_.phase != Phase::kOpen || limit <= 0) return;
  Reading behind;
  std::string bytes = forced_bytes(kForcedBytes, &behind);
  const size_t whole = first_invalid_utf8(bytes);
  const bool cut = whole != std::string::npos;
  if (cut) bytes.resize(whole);
  if (bytes.size() < 2) return;
  const auto encoded = tokenizer_->encode(bytes, false);
  if (!encoded.ok()) return;
  size_t at = 0, count = 0;
  for (const int32_t id : *encoded) {
    const std::string_view text = tokenizer_->token_bytes(id);
    if (text.empty() || bytes.compare(at, text.size(), text) != 0) return;  // a normalizer has changed the text
    at += text.size();
    ++count;
  }
  // The last token may be the beginning of a longer one that goes on with what is not forced.
  if (count > 0 && !(behind.complete && behind.tops.empty())) {
    const int32_t node = masks_->trie().node_of(tokenizer_->token_bytes(encoded->back()));
    const auto& nodes = masks_->trie().nodes();
    bool longer = cut || node < 0 || bytes.size() >= kForcedBytes;
    Reading next;
    for (uint32_t i = node < 0 ? 0 : static_cast<uint32_t>(node) + 1; !longer && i < nodes[static_cast<size_t>(node)].skip; i = nodes[i].skip) {
      stacks_.advance(behind, nodes[i].byte, &next);
      longer = !next.dead();
    }
    if (longer) --count;
  }
  for (size_t i = 0; i < std::min(count, static_cast<size_t>(limit)); ++i) tokens->push_back((*encoded)[i]);
}

uint32_t GrammarConstraint::copied(uint32_t frame, Frames& from, Frames& to, std::unordered_map<uint32_t, uint32_t>* known) {
  std::vector<uint32_t> path;
  uint32_t below = Frames::kBottom;
  for (; frame != Frames::kBottom; frame = from.below(frame)) {
    const auto found = known->find(frame);
    if (found != known->end()) {
      below = found->second;
      break;
    }
    path.push_back(frame);
  }
  for (; !path.empty(); path.pop_back()) {
    below = to.push(from.return_state(path.back()), below);
    known->emplace(path.back(), below);
  }
  return below;
}

/// Keeps the frames of readings that are still there.
void GrammarConstraint::drop_unused_frames() {
  Frames old = std::move(stacks_.frames());
  Frames& kept = stacks_.frames();
  kept.clear();
  std::unordered_map<uint32_t, uint32_t> known;
  const auto keep = [&](Reading& reading) {
    for (Reading::Top& top : reading.tops) top.frame = copied(top.frame, old, kept, &known);
  };
  keep(now_.reading);
  for (State& state : before_) keep(state.reading);
}

}  // namespace slipstream::grammar
