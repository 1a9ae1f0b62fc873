// Steps of the pushdown automaton.
#include "engine/grammar/matcher.h"

#include <algorithm>

namespace slipstream::grammar {

void Frames::clear() {
  frames_.assign(1, {kNoState, kBottom, 0});
  known_.clear();
}

uint32_t Frames::push(uint32_t return_state, uint32_t below) {
  const uint64_t key = (static_cast<uint64_t>(return_state) << 32) | below;
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const uint32_t depth = frames_[below].depth + 1;
  if (depth > static_cast<uint32_t>(limits::kGrammarStackDepth)) return kNoState;
  const auto frame = static_cast<uint32_t>(frames_.size());
  frames_.push_back({return_state, below, depth});
  known_.emplace(key, frame);
  return frame;
}

void Stacks::enter(uint32_t state, uint32_t frame, Reading* to) {
  if (pushdown_.states[state].plain) {
    const Reading::Top top{state, frame};
    if (std::find(to->tops.begin(), to->tops.end(), top) == to->tops.end()) to->tops.push_back(top);
    return;
  }
  open_.push_back({state, frame});
  enter_all(to);
}

/// Calls and returns until every top has a byte or a token to read.
void Stacks::enter_all(Reading* to) {
  constexpr size_t kSeen = 8 * limits::kGrammarStacks;
  seen_.clear();
  while (!open_.empty()) {
    const Reading::Top at = open_.back();
    open_.pop_back();
    if (std::find(seen_.begin(), seen_.end(), at) != seen_.end()) continue;
    if (seen_.size() >= kSeen) {
      // Too many ways: one too many tops makes the caller give the byte up.
      open_.clear();
      to->tops.resize(limits::kGrammarStacks + 1, at);
      return;
    }
    seen_.push_back(at);
    const Pushdown::State &state = pushdown_.states[at.state], &behind = pushdown_.states[at.state + 1];
    if ((state.first_edge != behind.first_edge || state.first_token != behind.first_token) &&
        std::find(to->tops.begin(), to->tops.end(), at) == to->tops.end())
      to->tops.push_back(at);
    if (state.accepts) {
      if (at.frame == Frames::kBottom) to->complete = true;
      else open_.push_back({frames_.return_state(at.frame), frames_.below(at.frame)});
    }
    for (uint32_t i = state.first_call; i < behind.first_call; ++i) {
      const Pushdown::Call& call = pushdown_.calls[i];
      const uint32_t frame = call.last ? at.frame : frames_.push(call.to, at.frame);
      if (frame != kNoState) open_.push_back({call.start, frame});
    }
  }
}

void Stacks::advance(const Reading& from, uint8_t byte, Reading* to) {
  to->tops.clear();
  to->complete = false;
  for (const Reading::Top& top : from.tops) {
    const uint32_t next = pushdown_.next(top.state, byte);
    if (next != kNoState) enter(next, top.frame, to);
    if (too_wide(to)) return;
  }
}

/// Gives a reading up that has too many tops.
bool Stacks::too_wide(Reading* to) {
  widest_ = std::max(widest_, to->tops.size());
  if (to->tops.size() <= static_cast<size_t>(limits::kGrammarStacks)) return false;
  to->tops.clear();
  to->complete = false;
  return true;
}

void Stacks::enter_only(uint32_t state, uint32_t frame, Reading* to) {
  to->tops.clear();
  to->complete = false;
  enter(state, frame, to);
  too_wide(to);
}

void Stacks::after_return(uint32_t frame, Reading* to) {
  to->tops.clear();
  to->complete = false;
  if (frame != Frames::kBottom) enter_only(frames_.return_state(frame), frames_.below(frame), to);
}

bool Stacks::start() {
  frames_.clear();
  reading_ = {};
  enter(pushdown_.root, Frames::kBottom, &reading_);
  if (reading_.tops.size() <= static_cast<size_t>(limits::kGrammarStacks)) return true;
  reading_ = {};
  return false;
}

bool Stacks::read(std::string_view bytes) {
  scratch_ = reading_;
  for (const char byte : bytes) {
    advance(scratch_, static_cast<uint8_t>(byte), &other_);
    if (other_.dead()) return false;
    std::swap(scratch_, other_);
  }
  std::swap(reading_, scratch_);
  return true;
}

bool Stacks::read_token(int32_t token) {
  scratch_.tops.clear();
  scratch_.complete = false;
  for (const Reading::Top& top : reading_.tops)
    for (uint32_t i = pushdown_.states[top.state].first_token; i < pushdown_.states[top.state + 1].first_token; ++i)
      if (pushdown_.tokens[i].token == token) enter(pushdown_.tokens[i].to, top.frame, &scratch_);
  if (scratch_.dead() || scratch_.tops.size() > static_cast<size_t>(limits::kGrammarStacks)) return false;
  std::swap(reading_, scratch_);
  return true;
}

int Stacks::only_byte(const Reading& reading) const {
  int only = -1;
  if (reading.complete) return -1;
  for (const Reading::Top& top : reading.tops) {
    const Pushdown::State &state = pushdown_.states[top.state], &behind = pushdown_.states[top.state + 1];
    if (state.first_token != behind.first_token) return -1;
    for (uint32_t i = state.first_edge; i < behind.first_edge; ++i) {
      const Pushdown::ByteEdge& edge = pushdown_.edges[i];
      if (edge.low != edge.high || (only >= 0 && only != edge.low)) return -1;
      only = edge.low;
    }
  }
  return only;
}

}  // namespace slipstream::grammar
