// Parses a regular expression and gives the automaton of the texts that match.
//
// Anchors are symbols of their own at first. The expression's automaton is met with "begin marks, characters, end marks",
// which leaves those readings in which every anchor stands at its end of the text; then the marks are taken out.
#include "engine/grammar/regex.h"

#include "engine/base/utf8.h"
#include "engine/grammar/regex_syntax.h"

namespace slipstream::grammar {

namespace {

class RegexParser {
 public:
  RegexParser(std::string_view pattern, Expressions& e) : cursor_{pattern, 0}, e_(e) {}

  Expr parse() {
    const Expr all = alternatives(0);
    if (!failed() && !cursor_.done()) refuse("an unmatched )");
    return all;
  }
  bool anchored() const { return anchored_; }

 private:
  bool failed() const { return e_.context().failed(); }
  Expr refuse(const std::string& what) {
    e_.context().fail("regular expression: " + what + " at byte " + std::to_string(cursor_.at));
    return e_.nothing();
  }

  Expr alternatives(int depth) {
    if (depth > limits::kGrammarDepth) return refuse("groups nest deeper than " + std::to_string(limits::kGrammarDepth));
    std::vector<Expr> parts{terms(depth)};
    while (!failed() && cursor_.take('|')) parts.push_back(terms(depth));
    return parts.size() == 1 ? parts[0] : e_.choice(std::move(parts));
  }

  Expr terms(int depth) {
    std::vector<Expr> parts;
    while (!failed() && !cursor_.done() && cursor_.peek() != '|' && cursor_.peek() != ')') parts.push_back(term(depth));
    return e_.sequence(std::move(parts));
  }

  Expr term(int depth) {
    if (cursor_.take('^')) return anchor(kTextBegin);
    if (cursor_.take('$')) return anchor(kTextEnd);
    Expr part = atom(depth);
    for (int suffixes = 0; !failed(); ++suffixes) {
      const auto count = quantifier();
      if (!count) break;
      if (suffixes > 0) return refuse("a quantifier follows a quantifier");
      part = e_.repeat(part, count->min, count->max);
      cursor_.take('?');  // lazy: the same texts
      if (cursor_.peek() == '+') return refuse("possessive quantifiers are not supported");
    }
    return part;
  }

  Expr anchor(Symbol symbol) {
    anchored_ = true;
    return e_.symbol(symbol);
  }

  std::optional<Count> quantifier() {
    if (cursor_.take('*')) return Count{0, -1};
    if (cursor_.take('+')) return Count{1, -1};
    if (cursor_.take('?')) return Count{0, 1};
    return take_count(cursor_, e_.context());
  }

  Expr atom(int depth) {
    const char c = cursor_.peek();
    if (c == '*' || c == '+' || c == '?') return refuse("nothing to repeat");
    if (cursor_.take('.')) return e_.code_points(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (cursor_.take('(')) return group(depth);
    if (cursor_.take('[')) return set(take_class(cursor_, e_.context()));
    if (cursor_.take('\\')) return set(take_escape(cursor_, false, e_.context()));
    const size_t from = cursor_.at;
    cursor_.take_character();
    return e_.bytes(cursor_.text.substr(from, cursor_.at - from));
  }

  Expr set(const std::optional<CodePoints>& points) { return points ? e_.code_points(*points) : e_.nothing(); }

  Expr group(int depth) {
    if (cursor_.take('?')) {
      if (cursor_.peek() == '=' || cursor_.peek() == '!') return refuse("look-ahead is not supported");
      if (cursor_.peek() == '<' && (cursor_.peek(1) == '=' || cursor_.peek(1) == '!'))
        return refuse("look-behind is not supported");
      if (cursor_.take("P<") || cursor_.take('<')) {
        while (!cursor_.done() && cursor_.peek() != '>') ++cursor_.at;
        if (!cursor_.take('>')) return refuse("the name of a group is not closed by >");
      } else if (!cursor_.take(':')) {
        return refuse("flags and other (?…) groups are not supported");
      }
    }
    const Expr inside = alternatives(depth + 1);
    if (!failed() && !cursor_.take(')')) return refuse("a group is not closed by )");
    return inside;
  }

  Cursor cursor_;
  Expressions& e_;
  bool anchored_ = false;
};

/// The automaton with its marks taken out: they match the empty text.
Automaton without_marks(const Automaton& marked, CompileContext& context) {
  Nfa nfa;
  for (size_t s = 1; s < marked.states.size(); ++s) nfa.add_state();
  for (uint32_t s = 0; s < marked.states.size(); ++s) {
    if (marked.states[s].accepts) nfa.accept(s);
    for (const Edge* e = marked.begin(s); e != marked.end(s); ++e) {
      if (e->low < 256) nfa.add_edge(s, e->low, e->high, e->to);
      else nfa.add_empty(s, e->to);
    }
  }
  return nfa.deterministic(context);
}

}  // namespace

Automaton regex_automaton(std::string_view pattern, RegexMatch match, Expressions& e) {
  if (!is_valid_utf8(pattern)) {
    e.context().fail("regular expression: not valid UTF-8");
    return {};
  }
  RegexParser parser(pattern, e);
  Expr whole = parser.parse();
  if (e.context().failed()) return {};
  const Expr any = e.any_character();
  if (!parser.anchored()) {
    if (match == RegexMatch::kSearch) whole = e.sequence({e.repeat(any, 0, -1), whole, e.repeat(any, 0, -1)});
    return e.build(whole);
  }
  const Expr begin = e.symbol(kTextBegin), end = e.symbol(kTextEnd);
  if (match == RegexMatch::kSearch)
    whole = e.sequence({e.repeat(e.choice({begin, any}), 0, -1), whole, e.repeat(e.choice({any, end}), 0, -1)});
  const Expr order = e.sequence({e.repeat(begin, 0, -1), e.repeat(any, 0, -1), e.repeat(end, 0, -1)});
  const Automaton in_order = e.build(order);
  return without_marks(intersection(e.build(whole), in_order, e.context()), e.context());
}

}  // namespace slipstream::grammar
