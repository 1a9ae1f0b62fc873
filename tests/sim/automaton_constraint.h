// A random automaton over token ids as a constraint, with every kind of state that a grammar has: free, narrow, forced, only an end
// token, over, and (where wanted) dead. Everything follows from one seed, so a test can walk it again from the start.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sample/token_constraint.h"
#include "kernels/check.h"

namespace slipstream::sim {

class Automaton {
 public:
  enum class Kind : uint8_t { kFree, kNarrow, kForced, kEndOnly, kOver, kDead };
  struct Shape {
    uint64_t seed = 0;
    int32_t vocab = 0;
    int32_t end_token = 0;   // what kEndOnly states allow; the state behind it is over
    bool ends = true;        // has kEndOnly and kOver states
    bool dead_ends = false;  // has kDead states
  };
  static constexpr int32_t kRefused = -1, kOverState = -2;

  explicit Automaton(const Shape& shape) : shape_(shape) {}

  Kind kind(int32_t state) const {
    if (state == kRefused) return Kind::kDead;
    if (state == kOverState) return Kind::kOver;
    const uint64_t draw = hash(static_cast<uint64_t>(state), 1) % 100;
    if (draw < 15) return Kind::kFree;
    if (draw < 50) return Kind::kNarrow;
    if (draw < 90) return Kind::kForced;
    if (draw < 94) return shape_.ends ? Kind::kEndOnly : Kind::kNarrow;
    if (draw < 97) return shape_.ends ? Kind::kOver : Kind::kForced;
    return shape_.dead_ends ? Kind::kDead : Kind::kNarrow;
  }
  int32_t forced(int32_t state) const {
    return static_cast<int32_t>(hash(static_cast<uint64_t>(state), 2) % static_cast<uint64_t>(shape_.vocab));
  }
  bool allows(int32_t state, int32_t token) const {
    switch (kind(state)) {
      case Kind::kFree: return true;
      case Kind::kNarrow: return hash(static_cast<uint64_t>(state), 1000 + static_cast<uint64_t>(token)) % 4 == 0;
      case Kind::kForced: return token == forced(state);
      case Kind::kEndOnly: return token == shape_.end_token;
      default: return false;
    }
  }
  int32_t next(int32_t state, int32_t token) const {
    if (!allows(state, token)) return kRefused;
    if (kind(state) == Kind::kEndOnly) return kOverState;
    // Runs of forced states: most of them lead to the next number, whose kind is drawn again.
    return static_cast<int32_t>(hash(static_cast<uint64_t>(state), 3 + static_cast<uint64_t>(token)) % 400);
  }
  /// The state behind these tokens, from the start.
  int32_t walk(std::span<const int32_t> tokens) const {
    int32_t state = 0;
    for (const int32_t token : tokens) state = next(state, token);
    return state;
  }
  const Shape& shape() const { return shape_; }

 private:
  uint64_t hash(uint64_t a, uint64_t b) const {
    uint64_t z = shape_.seed * 0x9e3779b97f4a7c15ull + a * 0xbf58476d1ce4e5b9ull + b * 0x94d049bb133111ebull + 1;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) >> 8;
  }
  const Shape shape_;
};

/// As strict as the seam allows: never asked beyond its end, and taken back at most what it must be able to take back.
class AutomatonConstraint final : public TokenConstraint {
 public:
  explicit AutomatonConstraint(Automaton automaton) : automaton_(automaton) {}

  bool narrow(std::span<uint32_t> mask) override {
    CHECK(mask.size() == (static_cast<size_t>(automaton_.shape().vocab) + 31) / 32, "a mask of another vocabulary");
    const int32_t state = states_.back();
    if (automaton_.kind(state) == Automaton::Kind::kFree) return false;
    for (int32_t token = 0; token < automaton_.shape().vocab; ++token)
      if (!automaton_.allows(state, token)) mask[static_cast<size_t>(token) / 32] &= ~(uint32_t{1} << (token % 32));
    return true;
  }
  void accept(int32_t token) override { states_.push_back(automaton_.next(states_.back(), token)); }
  void rollback(int32_t tokens) override {
    CHECK(tokens <= 32 && static_cast<size_t>(tokens) < states_.size(), "more taken back than was accepted");
    states_.resize(states_.size() - static_cast<size_t>(tokens));
  }
  void forced(int32_t limit, std::vector<int32_t>* tokens) override {
    int32_t state = states_.back();
    for (; limit > 0 && automaton_.kind(state) == Automaton::Kind::kForced; --limit) {
      tokens->push_back(automaton_.forced(state));
      state = automaton_.next(state, tokens->back());
    }
  }
  bool ended() const override { return automaton_.kind(states_.back()) == Automaton::Kind::kOver; }

 private:
  const Automaton automaton_;
  std::vector<int32_t> states_{0};
};

class AutomatonSpec final : public ConstraintSpec {
 public:
  explicit AutomatonSpec(const Automaton::Shape& shape) : automaton_(shape) {}
  std::unique_ptr<TokenConstraint> start() const override { return std::make_unique<AutomatonConstraint>(automaton_); }
  const Automaton& automaton() const { return automaton_; }

 private:
  const Automaton automaton_;
};

}  // namespace slipstream::sim
