// Expressions become automata here: Thompson's construction, with small rules written out where they are called.
#include "engine/grammar/expressions.h"

#include <algorithm>

namespace slipstream::grammar {

namespace {

constexpr int64_t kInlineStates = 64;  // a rule up to this size is copied to its calls: fewer stacks at run time
constexpr int kInlineDepth = 24;

}  // namespace

Expr Expressions::add(Node node) {
  nodes_.push_back(node);
  context_.work(1);
  return static_cast<Expr>(nodes_.size() - 1);
}

Expr Expressions::bytes(std::string_view text) {
  const auto first = static_cast<int32_t>(texts_.size());
  texts_ += text;
  return add({Kind::kBytes, 0, 0, first, static_cast<int32_t>(text.size())});
}

Expr Expressions::range(Symbol low, Symbol high) { return add({Kind::kRange, low, high, 0, 0}); }

Expr Expressions::sequence(std::vector<Expr> parts) {
  const auto first = static_cast<int32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  return add({Kind::kSequence, 0, 0, first, static_cast<int32_t>(parts.size())});
}

Expr Expressions::choice(std::vector<Expr> parts) {
  const auto first = static_cast<int32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  return add({Kind::kChoice, 0, 0, first, static_cast<int32_t>(parts.size())});
}

Expr Expressions::repeat(Expr part, int32_t min, int32_t max) {
  const auto first = static_cast<int32_t>(children_.size());
  children_.push_back(part);
  return add({Kind::kRepeat, static_cast<Symbol>(min), static_cast<Symbol>(max), first, 1});
}

Expr Expressions::automaton(Automaton automaton) {
  automata_.push_back(std::move(automaton));
  return add({Kind::kAutomaton, 0, 0, static_cast<int32_t>(automata_.size() - 1), 0});
}

Expr Expressions::graph(uint32_t states, std::vector<Move> moves) {
  context_.states(moves.size());
  graphs_.push_back({states, std::move(moves)});
  return add({Kind::kGraph, 0, 0, static_cast<int32_t>(graphs_.size() - 1), 0});
}

Expr Expressions::call(uint32_t rule) { return add({Kind::kCall, 0, 0, static_cast<int32_t>(rule), 0}); }

uint32_t Expressions::add_rule(std::string name, bool whole) {
  if (rules_.size() >= static_cast<size_t>(limits::kGrammarRules)) {
    context_.fail("the grammar has more than " + std::to_string(limits::kGrammarRules) + " rules");
    return 0;
  }
  rules_.push_back({std::move(name), -1, whole});
  return static_cast<uint32_t>(rules_.size() - 1);
}

Automaton Expressions::build(Expr expr) {
  Nfa nfa;
  if (expr >= 0 && !context_.failed()) nfa.accept(emit(expr, 0, &nfa));
  return nfa.deterministic(context_);
}

uint32_t Expressions::emit(Expr expr, uint32_t from, Nfa* nfa) {
  if (!context_.work(1) || !context_.states(nfa->states())) return from;
  const Node node = nodes_[static_cast<size_t>(expr)];
  switch (node.kind) {
    case Kind::kRange: {
      const uint32_t to = nfa->add_state();
      nfa->add_edge(from, node.low, node.high, to);
      return to;
    }
    case Kind::kBytes:
      for (int32_t i = 0; i < node.count; ++i) {
        const auto byte = static_cast<uint8_t>(texts_[static_cast<size_t>(node.first + i)]);
        const uint32_t to = nfa->add_state();
        nfa->add_edge(from, byte, byte, to);
        from = to;
      }
      return from;
    case Kind::kSequence:
      for (int32_t i = 0; i < node.count; ++i) from = emit(children_[static_cast<size_t>(node.first + i)], from, nfa);
      return from;
    case Kind::kChoice: {
      const uint32_t end = nfa->add_state();
      for (int32_t i = 0; i < node.count; ++i)
        nfa->add_empty(emit(children_[static_cast<size_t>(node.first + i)], from, nfa), end);
      return end;
    }
    case Kind::kRepeat:
      return emit_repeat(node, from, nfa);
    case Kind::kAutomaton:
      return nfa->append(automata_[static_cast<size_t>(node.first)], from);
    case Kind::kGraph:
      return emit_graph(graphs_[static_cast<size_t>(node.first)], from, nfa);
    case Kind::kCall:
      return emit_call(static_cast<uint32_t>(node.first), from, nfa);
  }
  return from;
}

uint32_t Expressions::emit_repeat(const Node& node, uint32_t from, Nfa* nfa) {
  const Expr part = children_[static_cast<size_t>(node.first)];
  const auto min = static_cast<int32_t>(node.low), max = static_cast<int32_t>(node.high);
  // Each copy begins in a state of its own: copies that match nothing are counted too, and no loop ends in `from`.
  const auto copy = [&](uint32_t at) {
    const uint32_t own = nfa->add_state();
    nfa->add_empty(at, own);
    return emit(part, own, nfa);
  };
  for (int32_t i = 0; i < min && !context_.failed(); ++i) from = copy(from);
  if (max < 0) {
    const uint32_t loop = nfa->add_state();
    nfa->add_empty(from, loop);
    nfa->add_empty(copy(loop), loop);
    return loop;
  }
  const uint32_t end = nfa->add_state();
  for (int32_t i = min; i < max && !context_.failed(); ++i) {
    nfa->add_empty(from, end);
    from = copy(from);
  }
  nfa->add_empty(from, end);
  return end;
}

uint32_t Expressions::emit_graph(const Graph& graph, uint32_t from, Nfa* nfa) {
  const uint32_t first = nfa->states();
  for (uint32_t i = 0; i < graph.states; ++i) nfa->add_state();
  nfa->add_empty(from, first);
  for (const Move& move : graph.moves) nfa->add_empty(emit(move.text, first + move.from, nfa), first + move.to);
  return first + 1;
}

uint32_t Expressions::emit_call(uint32_t rule, uint32_t from, Nfa* nfa) {
  if (rules_[rule].inlined) return emit(rules_[rule].body, from, nfa);
  const uint32_t to = nfa->add_state();
  nfa->add_edge(from, kRuleSymbols + rule, kRuleSymbols + rule, to);
  if (rules_[rule].nullable) nfa->add_empty(from, to);
  return to;
}

bool Expressions::nullable_graph(const Graph& graph) const {
  std::vector<bool> reached(graph.states, false);
  reached[0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Move& move : graph.moves)
      if (reached[move.from] && !reached[move.to] && nullable(move.text)) reached[move.to] = changed = true;
  }
  return reached[1];
}

bool Expressions::nullable(Expr expr) const {
  if (expr < 0) return false;
  const Node& node = nodes_[static_cast<size_t>(expr)];
  const auto child = [&](int32_t i) { return nullable(children_[static_cast<size_t>(node.first + i)]); };
  switch (node.kind) {
    case Kind::kRange: return false;
    case Kind::kBytes: return node.count == 0;
    case Kind::kSequence:
      for (int32_t i = 0; i < node.count; ++i)
        if (!child(i)) return false;
      return true;
    case Kind::kChoice:
      for (int32_t i = 0; i < node.count; ++i)
        if (child(i)) return true;
      return false;
    case Kind::kRepeat: return node.low == 0 || child(0);
    case Kind::kAutomaton: {
      const Automaton& automaton = automata_[static_cast<size_t>(node.first)];
      return !automaton.matches_nothing() && automaton.states[0].accepts;
    }
    case Kind::kGraph: return nullable_graph(graphs_[static_cast<size_t>(node.first)]);
    case Kind::kCall: return rules_[static_cast<size_t>(node.first)].nullable;
  }
  return false;
}

/// States that emit() would make, or more than kInlineStates.
int64_t Expressions::size(Expr expr, int depth) {
  if (expr < 0) return kInlineStates + 1;
  const Node node = nodes_[static_cast<size_t>(expr)];
  int64_t sum = 1;
  switch (node.kind) {
    case Kind::kRange: return 1;
    case Kind::kBytes: return node.count;
    case Kind::kSequence:
    case Kind::kChoice:
      for (int32_t i = 0; i < node.count && sum <= kInlineStates; ++i)
        sum += size(children_[static_cast<size_t>(node.first + i)], depth);
      return sum;
    case Kind::kRepeat: {
      const auto max = static_cast<int32_t>(node.high);
      const int64_t copies = max < 0 ? static_cast<int64_t>(node.low) + 1 : max;
      return 1 + copies * (1 + size(children_[static_cast<size_t>(node.first)], depth));
    }
    case Kind::kAutomaton: return static_cast<int64_t>(automata_[static_cast<size_t>(node.first)].states.size()) + 1;
    case Kind::kGraph: {
      const Graph& graph = graphs_[static_cast<size_t>(node.first)];
      sum += graph.states;
      for (size_t i = 0; i < graph.moves.size() && sum <= kInlineStates; ++i) sum += size(graph.moves[i].text, depth);
      return sum;
    }
    case Kind::kCall: {
      const auto rule = static_cast<uint32_t>(node.first);
      measure(rule, depth + 1);
      return rules_[rule].inlined ? size(rules_[rule].body, depth + 1) : 1;
    }
  }
  return sum;
}

void Expressions::measure(uint32_t rule, int depth) {
  Rule& r = rules_[rule];
  if (r.measure == Measure::kNow) r.whole = true;  // calls itself
  if (r.measure != Measure::kNot) return;
  r.measure = depth > kInlineDepth ? Measure::kDone : Measure::kNow;
  if (r.measure == Measure::kDone) return;
  const int64_t states = size(r.body, depth);
  r.inlined = !r.whole && states <= kInlineStates;
  r.measure = Measure::kDone;
}

void Expressions::finish_rules() {
  for (bool changed = true; changed && context_.work(static_cast<int64_t>(nodes_.size()));) {
    changed = false;
    for (Rule& rule : rules_)
      if (!rule.nullable && nullable(rule.body)) rule.nullable = changed = true;
  }
  for (uint32_t i = 0; i < rules_.size() && context_.work(1); ++i) measure(i, 0);
}

}  // namespace slipstream::grammar
