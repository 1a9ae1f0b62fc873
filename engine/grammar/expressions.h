// The tree between every syntax and the automata: rules made of bytes, sequences, choices, repetitions and calls. Knows no
// syntax.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/automaton.h"
#include "engine/grammar/compile_context.h"

namespace slipstream::grammar {

using Expr = int32_t;  // index into Expressions
using CodePoints = std::vector<std::pair<char32_t, char32_t>>;  // inclusive ranges, any order

/// Sorted, without overlaps and without surrogates.
CodePoints normalised(CodePoints ranges);
/// All that are not in `ranges`.
CodePoints complement(const CodePoints& ranges);

class Expressions {
 public:
  explicit Expressions(CompileContext& context) : context_(context) {}

  Expr nothing() { return choice({}); }
  Expr empty() { return sequence({}); }
  Expr bytes(std::string_view text);
  Expr symbol(Symbol symbol) { return range(symbol, symbol); }
  Expr range(Symbol low, Symbol high);
  Expr code_points(const CodePoints& ranges);
  Expr any_character() { return code_points({{0, 0x10FFFF}}); }
  Expr sequence(std::vector<Expr> parts);
  Expr choice(std::vector<Expr> parts);
  Expr optional(Expr part) { return choice({empty(), part}); }
  /// max -1: without end.
  Expr repeat(Expr part, int32_t min, int32_t max);
  Expr automaton(Automaton automaton);
  /// States 0 (the start) to `states` - 1, moves between them, the end in state 1.
  struct Move {
    uint32_t from;
    Expr text;
    uint32_t to;
  };
  Expr graph(uint32_t states, std::vector<Move> moves);
  Expr call(uint32_t rule);

  /// A rule to be defined later. `name` stands in errors. `whole`: calls stay calls, so that the masks inside are shared.
  uint32_t add_rule(std::string name, bool whole = false);
  void define(uint32_t rule, Expr body) { rules_[rule].body = body; }
  size_t rules() const { return rules_.size(); }
  const std::string& rule_name(uint32_t rule) const { return rules_[rule].name; }

  /// The automaton of an expression; calls are symbols unless small enough to be written out.
  Automaton build(Expr expr);
  Automaton build_rule(uint32_t rule) { return build(rules_[rule].body); }
  /// To be called when all rules are defined and before build() of one that calls others.
  void finish_rules();
  bool rule_is_empty_too(uint32_t rule) const { return rules_[rule].nullable; }
  CompileContext& context() { return context_; }

 private:
  enum class Kind : uint8_t { kRange, kBytes, kSequence, kChoice, kRepeat, kAutomaton, kGraph, kCall };
  struct Graph {
    uint32_t states;
    std::vector<Move> moves;
  };
  struct Node {
    Kind kind;
    Symbol low = 0, high = 0;  // repeat: min, max
    int32_t first = 0, count = 0;  // children, text, or the index of an automaton, a graph or a rule
  };
  enum class Measure : uint8_t { kNot, kNow, kDone };
  struct Rule {
    std::string name;
    Expr body = -1;
    bool whole = false, nullable = false, inlined = false;
    Measure measure = Measure::kNot;
  };

  Expr add(Node node);
  uint32_t emit(Expr expr, uint32_t from, Nfa* nfa);
  uint32_t emit_repeat(const Node& node, uint32_t from, Nfa* nfa);
  uint32_t emit_graph(const Graph& graph, uint32_t from, Nfa* nfa);
  bool nullable_graph(const Graph& graph) const;
  uint32_t emit_call(uint32_t rule, uint32_t from, Nfa* nfa);
  bool nullable(Expr expr) const;
  int64_t size(Expr expr, int depth);
  void measure(uint32_t rule, int depth);

  CompileContext& context_;
  std::vector<Node> nodes_;
  std::vector<Expr> children_;
  std::string texts_;
  std::vector<Automaton> automata_;
  std::vector<Graph> graphs_;
  std::vector<Rule> rules_;
};

}  // namespace slipstream::grammar
