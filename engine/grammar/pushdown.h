// The compiled automaton: states of all rules in one array, with edges over bytes, over control tokens, and calls. Const
// and shared between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/grammar/expressions.h"

namespace slipstream::grammar {

struct Pushdown {
  struct State {
    uint32_t first_edge, first_call, first_token;  // the next state's say where they end
    bool accepts;                                  // the rule may end here
    bool plain;                                    // neither calls nor accepts: has byte and token edges only
  };
  struct ByteEdge {
    uint32_t to;
    uint8_t low, high;
  };
  struct Call {
    uint32_t start;  // of the called rule
    uint32_t to;     // goes on there
    bool last;       // nothing follows in `to`: the caller's own return takes its place
  };
  struct TokenEdge {
    int32_t token;
    uint32_t to;
  };

  uint32_t root = 0;            // start state of the whole
  std::vector<State> states;    // and one more, which ends the last
  std::vector<ByteEdge> edges;  // of a state: sorted, disjoint
  std::vector<Call> calls;
  std::vector<TokenEdge> tokens;
  /// States of one class allow the same texts of up to `horizon` bytes; their masks are shared. Horizon 0: each is its own.
  std::vector<uint32_t> classes;
  uint32_t horizon = 0;

  size_t state_count() const { return states.size() - 1; }
  uint32_t class_of(uint32_t state) const { return classes.empty() ? state : classes[state]; }
  int64_t bytes() const;
  uint32_t next(uint32_t state, uint8_t byte) const {
    for (uint32_t i = states[state].first_edge, end = states[state + 1].first_edge; i < end; ++i) {
      if (edges[i].low > byte) break;
      if (byte <= edges[i].high) return edges[i].to;
    }
    return kNoState;
  }
};

/// All rules that `root` needs, joined. Null with an error in the context when nothing matches, when a rule calls itself
/// without having read anything, or when the states are too many.
std::shared_ptr<Pushdown> make_pushdown(Expr root, Expressions& expressions);

/// Fills classes and horizon.
void share_classes(Pushdown* pushdown, CompileContext& context);

}  // namespace slipstream::grammar
