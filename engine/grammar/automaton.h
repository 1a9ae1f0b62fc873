// Finite automata over symbols: bytes, control tokens and calls of rules. Owns making them deterministic, their
// intersections and differences; knows no syntax.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/grammar/compile_context.h"

namespace slipstream::grammar {

/// 0..255 are bytes. The others stand alone, never in a range.
using Symbol = uint32_t;
inline constexpr Symbol kTokenSymbols = 0x1000;      // + token id
inline constexpr Symbol kRuleSymbols = 0x4000'0000;  // + rule: the rule's text stands here
inline constexpr Symbol kTextBegin = 0x8000'0000;    // anchors, while a regular expression is compiled
inline constexpr Symbol kTextEnd = 0x8000'0001;
inline constexpr uint32_t kNoState = UINT32_MAX;

struct Edge {
  Symbol low, high;  // inclusive
  uint32_t to;
};

/// Deterministic; every state can reach an accepting one. No states: matches nothing. State 0 is the start.
struct Automaton {
  struct State {
    uint32_t first_edge = 0, edges = 0;
    bool accepts = false;
  };
  std::vector<State> states;
  std::vector<Edge> edges;  // of a state: sorted, disjoint

  bool matches_nothing() const { return states.empty(); }
  const Edge* begin(uint32_t state) const { return edges.data() + states[state].first_edge; }
  const Edge* end(uint32_t state) const { return begin(state) + states[state].edges; }
  uint32_t next(uint32_t state, Symbol symbol) const;
  bool matches(std::string_view text) const;
};

/// Built by hand, edge by edge.
class Nfa {
 public:
  Nfa() { add_state(); }
  uint32_t add_state() { return states_++; }
  void add_edge(uint32_t from, Symbol low, Symbol high, uint32_t to) { edges_.push_back({from, {low, high, to}}); }
  void add_empty(uint32_t from, uint32_t to) { empty_.push_back({from, to}); }
  void accept(uint32_t state) { accepting_.push_back(state); }
  uint32_t states() const { return states_; }
  /// Appends a copy of `automaton` that starts in `from`; returns the state behind it.
  uint32_t append(const Automaton& automaton, uint32_t from);

  Automaton deterministic(CompileContext& context) const;

 private:
  friend class SubsetConstruction;
  struct From {
    uint32_t from;
    Edge edge;
  };
  uint32_t states_ = 0;
  std::vector<From> edges_;
  std::vector<std::pair<uint32_t, uint32_t>> empty_;
  std::vector<uint32_t> accepting_;
};

/// Texts that both match.
Automaton intersection(const Automaton& a, const Automaton& b, CompileContext& context);
/// Texts of a that b does not match.
Automaton difference(const Automaton& a, const Automaton& b, CompileContext& context);
/// The smallest one of the same texts. Quadratic: for small automata.
Automaton minimised(const Automaton& automaton, CompileContext& context);
/// The same automaton without states that reach nothing.
Automaton trimmed(const Automaton& automaton);

}  // namespace slipstream::grammar
