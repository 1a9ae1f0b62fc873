// The states behind the newest tokens of a choice, so that tokens can be taken back. For constraints whose state is a few words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/check.h"

namespace slipstream {

template <typename State>
class StateTrail {
 public:
  /// Tokens that can be taken back: twice what TokenConstraint::rollback asks for.
  static constexpr size_t kKept = 64;

  explicit StateTrail(const State& first) { states_[0] = first; }
  const State& newest() const { return states_[at_ % states_.size()]; }
  void push(const State& state) {
    states_[++at_ % states_.size()] = state;
    if (kept_ < kKept) ++kept_;
  }
  void take_back(int32_t tokens) {
    CHECK(tokens >= 0 && static_cast<size_t>(tokens) <= kept_, "more tokens taken back than a constraint keeps");
    at_ -= static_cast<size_t>(tokens);
    kept_ -= static_cast<size_t>(tokens);
  }

 private:
  std::array<State, kKept + 1> states_{};
  size_t at_ = 0;
  size_t kept_ = 0;
};

}  // namespace slipstream
