// Pieces of syntax that regular expressions and EBNF share: escapes, classes, counts.
#pragma once

#include <optional>
#include <string_view>

#include "engine/grammar/expressions.h"

namespace slipstream::grammar {

/// Reads a text from the front. Holds a view: the text must outlive it.
struct Cursor {
  std::string_view text;
  size_t at = 0;

  bool done() const { return at >= text.size(); }
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool take(char c) {
    if (done() || text[at] != c) return false;
    ++at;
    return true;
  }
  bool take(std::string_view s) {
    if (!text.substr(at).starts_with(s)) return false;
    at += s.size();
    return true;
  }
  /// The next character of valid UTF-8; not at the end.
  char32_t take_character();
};

/// {m}, {m,} or {m,n} behind its '{', which is taken; or nothing, and the cursor stays.
struct Count {
  int32_t min, max;
};
std::optional<Count> take_count(Cursor& cursor, CompileContext& context);

/// `digits` hexadecimal digits; fails without them.
std::optional<char32_t> take_hex(Cursor& cursor, int digits);

/// What follows a backslash: one character, or a set (\d, \w, \s and their opposites). Fails on what is not served.
std::optional<CodePoints> take_escape(Cursor& cursor, bool in_class, CompileContext& context);
/// From behind '[' to behind ']'.
std::optional<CodePoints> take_class(Cursor& cursor, CompileContext& context);

}  // namespace slipstream::grammar
