// Reads rules, alternatives, literals, classes and quantifiers. A rule ends where the next one begins, so line breaks may
// stand anywhere.
#include "engine/grammar/ebnf.h"

#include <map>

#include "engine/base/utf8.h"
#include "engine/grammar/regex_syntax.h"

namespace slipstream::grammar {

namespace {

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-';
}

class EbnfParser {
 public:
  EbnfParser(std::string_view text, Expressions& e) : cursor_{text, 0}, e_(e) {}

  Expr parse() {
    for (skip(); !failed() && !cursor_.done(); skip()) rule();
    if (failed()) return e_.nothing();
    for (const auto& [name, known] : rules_)
      if (!known.defined) return refuse("rule \"" + name + "\" is used but not defined");
    const auto root = rules_.find("root");
    if (root == rules_.end()) return refuse("there is no rule \"root\"");
    return e_.call(root->second.id);
  }

 private:
  struct Known {
    uint32_t id;
    bool defined;
  };

  bool failed() const { return e_.context().failed(); }
  Expr refuse(const std::string& what) {
    e_.context().fail("grammar: " + what);
    return e_.nothing();
  }
  Expr refuse_here(const std::string& what) { return refuse(what + " at byte " + std::to_string(cursor_.at)); }

  /// White space and comments.
  void skip() {
    while (!cursor_.done()) {
      const char c = cursor_.peek();
      if (c == '#')
        while (!cursor_.done() && cursor_.peek() != '\n') ++cursor_.at;
      else if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
        ++cursor_.at;
      else
        return;
    }
  }

  std::string name() {
    const size_t from = cursor_.at;
    while (is_name_character(cursor_.peek())) ++cursor_.at;
    return std::string(cursor_.text.substr(from, cursor_.at - from));
  }

  Known& known(const std::string& name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_[name] = {e_.add_rule("\"" + name + "\""), false};
  }

  bool at_definition() {
    const size_t from = cursor_.at;
    name();
    skip();
    const bool definition = cursor_.take("::=");
    cursor_.at = from;
    return definition;
  }

  void rule() {
    const std::string rule_name = name();
    skip();
    if (rule_name.empty() || !cursor_.take("::=")) {
      refuse_here("expected a rule, name ::= …,");
      return;
    }
    const Known of = known(rule_name);
    if (of.defined) {
      refuse("rule \"" + rule_name + "\" is defined twice");
      return;
    }
    rules_[rule_name].defined = true;
    e_.define(of.id, alternatives(0));
    if (!failed() && !cursor_.done() && !is_name_character(cursor_.peek())) refuse_here("unexpected text");
  }

  Expr alternatives(int depth) {
    if (depth > limits::kGrammarDepth) return refuse_here("groups nest deeper than " + std::to_string(limits::kGrammarDepth));
    std::vector<Expr> parts;
    do {
      parts.push_back(terms(depth));
      skip();
    } while (!failed() && cursor_.take('|'));
    return parts.size() == 1 ? parts[0] : e_.choice(std::move(parts));
  }

  Expr terms(int depth) {
    std::vector<Expr> parts;
    for (skip(); !failed() && !cursor_.done(); skip()) {
      const char c = cursor_.peek();
      if (c == '|' || c == ')' || (is_name_character(c) && at_definition())) break;
      parts.push_back(quantified(depth));
    }
    return e_.sequence(std::move(parts));
  }

  Expr quantified(int depth) {
    const Expr part = term(depth);
    if (failed()) return part;
    const size_t behind = cursor_.at;
    skip();
    std::optional<Count> count;
    if (cursor_.take('*')) count = {0, -1};
    else if (cursor_.take('+')) count = {1, -1};
    else if (cursor_.take('?')) count = {0, 1};
    else count = take_count(cursor_, e_.context());
    if (!count) {
      cursor_.at = behind;
      return part;
    }
    skip();
    const char next = cursor_.peek();
    if (next == '*' || next == '+' || next == '?' || next == '{') return refuse_here("a quantifier follows a quantifier");
    return e_.repeat(part, count->min, count->max);
  }

  Expr term(int depth) {
    if (cursor_.take('"')) return literal();
    if (cursor_.take('.')) return e_.any_character();
    if (cursor_.take('[')) {
      const auto points = take_class(cursor_, e_.context());
      return points ? e_.code_points(*points) : e_.nothing();
    }
    if (cursor_.take('(')) {
      skip();
      if (cursor_.peek() == '=') return refuse_here("look-ahead (= …) is not supported");
      const Expr inside = alternatives(depth + 1);
      if (!failed() && !cursor_.take(')')) return refuse_here("a group is not closed by )");
      return inside;
    }
    if (is_name_character(cursor_.peek())) return e_.call(known(name()).id);
    return refuse_here("unexpected character");
  }

  Expr literal() {
    std::string bytes;
    while (!cursor_.take('"')) {
      if (cursor_.done() || cursor_.peek() == '\n') return refuse_here("a literal is not closed by \"");
      if (cursor_.take('\\')) {
        const auto points = take_escape(cursor_, true, e_.context());
        if (!points) return e_.nothing();
        const char32_t c = points->front().first;
        if (points->size() != 1 || points->front().second != c || (c >= 0xD800 && c <= 0xDFFF))
          return refuse_here("an escape in a literal does not stand for one character");
        append_utf8(bytes, c);
      } else {
        append_utf8(bytes, cursor_.take_character());
      }
    }
    return e_.bytes(bytes);
  }

  Cursor cursor_;
  Expressions& e_;
  std::map<std::string, Known> rules_;
};

}  // namespace

Expr parse_ebnf(std::string_view text, Expressions& expressions) {
  if (!is_valid_utf8(text)) {
    expressions.context().fail("grammar: not valid UTF-8");
    return expressions.nothing();
  }
  return EbnfParser(text, expressions).parse();
}

}  // namespace slipstream::grammar
