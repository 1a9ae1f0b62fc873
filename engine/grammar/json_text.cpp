// The spellings of JSON as expressions (RFC 8259).
#include "engine/grammar/json_text.h"

#include "engine/grammar/number.h"
#include "engine/grammar/regex.h"

namespace slipstream::grammar {

namespace {

constexpr int32_t kIndent = 32;  // a model that writes white space without end would never come to a value
constexpr char kHex[] = "0123456789abcdef";

/// What JSON writes for a byte that may not stand in a string as it is; empty for others.
std::string escape(uint8_t byte) {
  switch (byte) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  if (byte >= 0x20) return {};
  return std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
}

Expr flexible_space(Expressions& e) {
  const Expr blank = e.choice({e.symbol(' '), e.symbol('\t')});
  const Expr line = e.sequence({e.optional(e.symbol('\r')), e.symbol('\n'), e.repeat(blank, 0, kIndent)});
  return e.automaton(minimised(e.build(e.choice({e.empty(), e.symbol(' '), line})), e.context()));
}

}  // namespace

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const std::string escaped = escape(static_cast<uint8_t>(c));
    if (escaped.empty()) out += c;
    else out += escaped;
  }
  return out;
}

bool is_json_space(const Automaton& automaton) {
  for (const Edge& e : automaton.edges)
    for (Symbol s = e.low; s <= e.high; ++s)
      if (s != ' ' && s != '\t' && s != '\r' && s != '\n') return false;
  return !automaton.matches_nothing();
}

JsonText::JsonText(Expressions& expressions, const Whitespace& whitespace) : e_(expressions) {
  switch (whitespace.kind) {
    case Whitespace::Kind::kFlexible:
      space_ = after_comma_ = flexible_space(e_);
      after_colon_ = e_.optional(e_.symbol(' '));
      return;
    case Whitespace::Kind::kFixed:
      space_ = e_.empty();
      after_comma_ = after_colon_ = e_.symbol(' ');
      return;
    case Whitespace::Kind::kPattern: break;
  }
  const Automaton pattern = regex_automaton(whitespace.pattern, RegexMatch::kWhole, e_);
  if (!e_.context().failed() && !is_json_space(pattern))
    e_.context().fail("the white space pattern matches other text than spaces, tabs and line breaks, or nothing");
  space_ = after_comma_ = after_colon_ = e_.automaton(pattern);
}

Expr JsonText::key(std::string_view name) { return e_.bytes("\"" + json_escaped(name) + "\""); }

Expr JsonText::character() {
  if (character_ >= 0) return character_;
  const Expr hex = e_.code_points({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  const Expr d = e_.code_points({{'D', 'D'}, {'d', 'd'}});
  const Expr raw = e_.code_points({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}});
  const Expr simple = e_.code_points({{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'},
                                      {'t', 't'}});
  const Expr not_d = e_.code_points({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  const Expr low_half = e_.code_points({{'0', '7'}}), high_8b = e_.code_points({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const Expr high_cf = e_.code_points({{'C', 'F'}, {'c', 'f'}});
  // Halves of a surrogate pair stand together: alone they are no character.
  const Expr plain = e_.choice({e_.sequence({not_d, hex, hex, hex}), e_.sequence({d, low_half, hex, hex})});
  const Expr pair = e_.sequence({d, high_8b, hex, hex, e_.bytes("\\u"), d, high_cf, hex, hex});
  const Expr coded = e_.sequence({e_.symbol('u'), e_.choice({plain, pair})});
  const Expr all = e_.choice({raw, e_.sequence({e_.symbol('\\'), e_.choice({simple, coded})})});
  return character_ = e_.automaton(minimised(e_.build(all), e_.context()));
}

uint32_t JsonText::rule(uint32_t* known, const char* name, bool whole, Expr (JsonText::*body)()) {
  if (*known != kNoState) return *known;
  *known = e_.add_rule(name, whole);
  if (!e_.context().failed()) e_.define(*known, (this->*body)());
  return *known;
}

Expr JsonText::string_body() {
  const Expr text = e_.sequence({e_.symbol('"'), e_.repeat(character(), 0, -1), e_.symbol('"')});
  return e_.automaton(minimised(e_.build(text), e_.context()));
}

Expr JsonText::string() { return e_.call(rule(&string_, "string", true, &JsonText::string_body)); }

Expr JsonText::string_of_length(int32_t min, int32_t max) {
  return e_.sequence({e_.symbol('"'), e_.repeat(character(), min, max), e_.symbol('"')});
}

Expr JsonText::string_of(const Automaton& decoded) {
  Nfa nfa;
  const uint32_t inside = nfa.add_state();
  nfa.add_edge(0, '"', '"', inside);
  for (size_t s = 0; s < decoded.states.size(); ++s) nfa.add_state();
  const uint32_t end = nfa.add_state(), base = inside + 1;
  nfa.accept(end);
  if (!decoded.matches_nothing()) nfa.add_empty(inside, base);
  for (uint32_t s = 0; s < decoded.states.size() && e_.context().work(1); ++s) {
    if (decoded.states[s].accepts) nfa.add_edge(base + s, '"', '"', end);
    for (const Edge* edge = decoded.begin(s); edge != decoded.end(s); ++edge) {
      Symbol raw = edge->low;  // start of a run of bytes that stand for themselves
      for (Symbol byte = edge->low; byte <= std::min<Symbol>(edge->high, '\\'); ++byte) {
        const std::string escaped = escape(static_cast<uint8_t>(byte));
        if (escaped.empty()) continue;
        if (raw < byte) nfa.add_edge(base + s, raw, byte - 1, base + edge->to);
        raw = byte + 1;
        uint32_t at = base + s;
        for (size_t i = 0; i < escaped.size(); ++i) {
          const uint32_t to = i + 1 == escaped.size() ? base + edge->to : nfa.add_state();
          nfa.add_edge(at, static_cast<uint8_t>(escaped[i]), static_cast<uint8_t>(escaped[i]), to);
          at = to;
        }
      }
      if (raw <= edge->high) nfa.add_edge(base + s, raw, edge->high, base + edge->to);
    }
    e_.context().states(nfa.states() / 8);  // most of the escapes' states fall together
  }
  return e_.automaton(nfa.deterministic(e_.context()));
}

const Automaton& JsonText::any_text() {
  if (any_text_.matches_nothing()) any_text_ = e_.build(e_.repeat(e_.any_character(), 0, -1));
  return any_text_;
}

Expr JsonText::value() { return e_.call(rule(&value_, "value", true, &JsonText::value_body)); }
Expr JsonText::object() { return e_.call(rule(&object_, "object", true, &JsonText::object_body)); }
Expr JsonText::array() { return e_.call(rule(&array_, "array", true, &JsonText::array_body)); }

Expr JsonText::value_body() {
  return e_.choice({e_.bytes("null"), e_.bytes("true"), e_.bytes("false"), number_text({}, e_), string(), array(), object()});
}

Expr JsonText::object_body() {
  const Expr member = e_.sequence({string(), e_.symbol(':'), after_colon_, value()});
  const Expr more = e_.repeat(e_.sequence({e_.symbol(','), after_comma_, member}), 0, -1);
  return e_.sequence({e_.symbol('{'), space_, e_.optional(e_.sequence({member, more, space_})), e_.symbol('}')});
}

Expr JsonText::array_body() {
  const Expr more = e_.repeat(e_.sequence({e_.symbol(','), after_comma_, value()}), 0, -1);
  return e_.sequence({e_.symbol('['), space_, e_.optional(e_.sequence({value(), more, space_})), e_.symbol(']')});
}

}  // namespace slipstream::grammar
