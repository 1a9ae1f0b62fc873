// Reads bytes with a pushdown automaton: all ways in which a text so far can be read, side by side. Knows no token.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/grammar/pushdown.h"

namespace slipstream::grammar {

/// Stacks of return states, shared: a frame is a return state and the frame below it. Equal stacks have equal numbers.
class Frames {
 public:
  static constexpr uint32_t kBottom = 0;

  Frames() { clear(); }
  void clear();
  /// kNoState when the stack would be deeper than limits::kGrammarStackDepth.
  uint32_t push(uint32_t return_state, uint32_t below);
  uint32_t return_state(uint32_t frame) const { return frames_[frame].return_state; }
  uint32_t below(uint32_t frame) const { return frames_[frame].below; }
  uint32_t depth(uint32_t frame) const { return frames_[frame].depth; }
  size_t size() const { return frames_.size(); }

 private:
  struct Frame {
    uint32_t return_state, below, depth;
  };
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, uint32_t> known_;
};

/// Where each reading of the text stands. No tops and not complete: the text cannot be read.
struct Reading {
  struct Top {
    uint32_t state, frame;
    bool operator==(const Top&) const = default;
  };
  std::vector<Top> tops;
  bool complete = false;  // the text may end here

  bool dead() const { return tops.empty() && !complete; }
};

/// Moves readings over bytes. More than limits::kGrammarStacks readings at once are not followed: such a byte cannot be read.
class Stacks {
 public:
  explicit Stacks(const Pushdown& pushdown) : pushdown_(pushdown) {}

  /// The reading of the empty text. False when it has too many tops.
  bool start();
  const Reading& reading() const { return reading_; }
  /// Reads all bytes; false and unchanged when one cannot be read.
  bool read(std::string_view bytes);
  bool read_token(int32_t token);
  void set(Reading reading) { reading_ = std::move(reading); }

  /// `from` over one byte, into `to`.
  void advance(const Reading& from, uint8_t byte, Reading* to);
  /// The reading that stands in one state.
  void enter_only(uint32_t state, uint32_t frame, Reading* to);
  /// What follows the return from `frame`.
  void after_return(uint32_t frame, Reading* to);
  /// The one byte that can come next, or -1.
  int only_byte(const Reading& reading) const;

  /// The most tops since the last call, given-up ones included.
  size_t take_widest() { return std::exchange(widest_, 0); }

  Frames& frames() { return frames_; }
  const Frames& frames() const { return frames_; }
  const Pushdown& pushdown() const { return pushdown_; }

 private:
  void enter(uint32_t state, uint32_t frame, Reading* to);
  void enter_all(Reading* to);
  bool too_wide(Reading* to);

  const Pushdown& pushdown_;
  Frames frames_;
  Reading reading_, scratch_, other_;
  std::vector<Reading::Top> open_, seen_;
  size_t widest_ = 0;
};

}  // namespace slipstream::grammar
