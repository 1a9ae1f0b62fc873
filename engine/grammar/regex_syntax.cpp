// Escapes, classes and counts of regular expressions.
#include "engine/grammar/regex_syntax.h"

#include <cstring>

#include "engine/text/unicode.h"

namespace slipstream::grammar {

namespace {

const CodePoints kDigits{{'0', '9'}};
const CodePoints kWordCharacters{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/// ECMA-262: WhiteSpace and LineTerminator.
const CodePoints kSpaces{{0x09, 0x0D}, {0x20, 0x20}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                         {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

CodePoints one(char32_t c) { return {{c, c}}; }

std::string position(const Cursor& cursor) { return " at byte " + std::to_string(cursor.at); }

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

/// \uXXXX, a pair of surrogates of that form, or \u{X…}.
std::optional<char32_t> take_unicode_escape(Cursor& cursor) {
  if (cursor.take('{')) {
    char32_t value = 0;
    int digits = 0;
    for (; !cursor.done() && cursor.peek() != '}' && digits < 7; ++digits) {
      const auto digit = take_hex(cursor, 1);
      if (!digit) return std::nullopt;
      value = value * 16 + *digit;
    }
    if (digits == 0 || value > 0x10FFFF || !cursor.take('}')) return std::nullopt;
    return value;
  }
  const auto high = take_hex(cursor, 4);
  if (!high || *high < 0xD800 || *high > 0xDBFF) return high;
  Cursor ahead = cursor;
  if (!ahead.take("\\u")) return high;
  const auto low = take_hex(ahead, 4);
  if (!low || *low < 0xDC00 || *low > 0xDFFF) return high;
  cursor = ahead;
  return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
}

std::optional<int32_t> take_number(Cursor& cursor) {
  if (cursor.peek() < '0' || cursor.peek() > '9') return std::nullopt;
  int64_t value = 0;
  while (cursor.peek() >= '0' && cursor.peek() <= '9') {
    value = std::min<int64_t>(value * 10 + (cursor.peek() - '0'), limits::kGrammarRepeat + 1);
    ++cursor.at;
  }
  return static_cast<int32_t>(value);
}

}  // namespace

char32_t Cursor::take_character() {
  const char32_t c = unicode::code_point_at(text, at);
  at += unicode::length_at(text, at);
  return c;
}

std::optional<char32_t> take_hex(Cursor& cursor, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = cursor.peek();
    const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<char32_t>(digit);
    ++cursor.at;
  }
  return value;
}

std::optional<Count> take_count(Cursor& cursor, CompileContext& context) {
  Cursor ahead = cursor;
  if (!ahead.take('{')) return std::nullopt;
  const auto min = take_number(ahead);
  if (!min) return std::nullopt;
  Count count{*min, *min};
  if (ahead.take(',')) {
    const auto max = take_number(ahead);
    count.max = max ? *max : -1;
  }
  if (!ahead.take('}')) return std::nullopt;
  cursor = ahead;
  if (count.min > limits::kGrammarRepeat || count.max > limits::kGrammarRepeat)
    context.fail("a repetition count" + position(cursor) + " is larger than " + std::to_string(limits::kGrammarRepeat));
  else if (count.max >= 0 && count.max < count.min)
    context.fail("the repetition {" + std::to_string(count.min) + "," + std::to_string(count.max) + "}" + position(cursor) +
                 " has its bounds the wrong way round");
  if (context.failed()) return std::nullopt;
  return count;
}

std::optional<CodePoints> take_escape(Cursor& cursor, bool in_class, CompileContext& context) {
  const auto refuse = [&](const std::string& what) -> std::optional<CodePoints> {
    context.fail(what + position(cursor));
    return std::nullopt;
  };
  if (cursor.done()) return refuse("the pattern ends in a backslash");
  const char c = cursor.peek();
  if (static_cast<uint8_t>(c) >= 0x80) return one(cursor.take_character());
  ++cursor.at;
  switch (c) {
    case 'd': return kDigits;
    case 'D': return complement(kDigits);
    case 'w': return kWordCharacters;
    case 'W': return complement(kWordCharacters);
    case 's': return kSpaces;
    case 'S': return complement(kSpaces);
    case 't': return one('\t');
    case 'n': return one('\n');
    case 'r': return one('\r');
    case 'f': return one('\f');
    case 'v': return one('\v');
    case 'x': {
      const auto code = take_hex(cursor, 2);
      return code ? one(*code) : refuse("\\x needs two hexadecimal digits");
    }
    case 'u': {
      const auto code = take_unicode_escape(cursor);
      return code ? one(*code) : refuse("\\u needs four hexadecimal digits, or up to six in braces");
    }
    case 'U': {  // of GBNF
      const auto code = take_hex(cursor, 8);
      return code && *code <= 0x10FFFF ? one(*code) : refuse("\\U needs the eight hexadecimal digits of a character");
    }
    case 'c':
      if ((cursor.peek() | 32) < 'a' || (cursor.peek() | 32) > 'z') return refuse("\\c needs a letter");
      return one(static_cast<char32_t>(cursor.text[cursor.at++]) & 31);
    case 'b':
      if (in_class) return one('\b');
      return refuse("word boundaries (\\b) are not supported");
    case '0':
      if (cursor.peek() < '0' || cursor.peek() > '9') return one(0);
      [[fallthrough]];
    default: break;
  }
  if (c >= '0' && c <= '9') return refuse("back references and octal escapes (\\" + std::string(1, c) + ") are not supported");
  if (is_letter_or_digit(c)) return refuse("the escape \\" + std::string(1, c) + " is not supported");
  return one(static_cast<char32_t>(c));
}

std::optional<CodePoints> take_class(Cursor& cursor, CompileContext& context) {
  const bool negated = cursor.take('^');
  CodePoints out;
  const auto member = [&]() -> std::optional<CodePoints> {
    if (cursor.take('\\')) return take_escape(cursor, true, context);
    return one(cursor.take_character());
  };
  while (!cursor.take(']')) {
    if (cursor.done()) {
      context.fail("a character class is not closed by ]");
      return std::nullopt;
    }
    const auto low = member();
    if (!low) return std::nullopt;
    const bool range = cursor.peek() == '-' && cursor.peek(1) != ']' && cursor.at + 1 < cursor.text.size();
    if (!range) {
      out.insert(out.end(), low->begin(), low->end());
      continue;
    }
    ++cursor.at;
    const auto high = member();
    if (!high) return std::nullopt;
    const auto single = [](const CodePoints& set) { return set.size() == 1 && set[0].first == set[0].second; };
    if (!single(*low) || !single(*high) || low->front().first > high->front().first) {
      context.fail("a character range" + position(cursor) + " does not go from a lower to a higher character");
      return std::nullopt;
    }
    out.push_back({low->front().first, high->front().first});
  }
  return negated ? complement(out) : normalised(std::move(out));
}

}  // namespace slipstream::grammar
