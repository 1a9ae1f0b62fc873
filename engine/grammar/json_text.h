// How JSON values are spelled: white space, strings, literals, values of any shape. Knows no schema.
#pragma once

#include <string_view>

#include "engine/grammar/expressions.h"
#include "engine/grammar/format.h"

namespace slipstream::grammar {

/// One compilation. The rules behind the calls are made when they are first asked for.
class JsonText {
 public:
  JsonText(Expressions& expressions, const Whitespace& whitespace);

  /// Behind '{', '[' and before '}', ']'; behind ','; behind ':'.
  Expr space() const { return space_; }
  Expr after_comma() const { return after_comma_; }
  Expr after_colon() const { return after_colon_; }

  /// "name" in quotes, escaped where JSON must.
  Expr key(std::string_view name);
  /// Any string, with every escape.
  Expr string();
  /// With `min` to `max` characters (max -1: without end), every escape.
  Expr string_of_length(int32_t min, int32_t max);
  /// The strings whose decoded bytes the automaton matches, each in one spelling: escapes only where JSON must have them.
  Expr string_of(const Automaton& decoded);
  Expr value();
  Expr object();
  Expr array();
  /// All texts: UTF-8 of any length.
  const Automaton& any_text();

 private:
  Expr character();
  uint32_t rule(uint32_t* known, const char* name, bool whole, Expr (JsonText::*body)());
  Expr string_body();
  Expr value_body();
  Expr object_body();
  Expr array_body();

  Expressions& e_;
  Expr space_, after_comma_, after_colon_;
  uint32_t string_ = kNoState, value_ = kNoState, object_ = kNoState, array_ = kNoState;
  Expr character_ = -1;
  Automaton any_text_;
};

/// `text` as JSON writes it between quotes.
std::string json_escaped(std::string_view text);
/// The whole text is white space as JSON knows it, whatever the automaton matches.
bool is_json_space(const Automaton& automaton);

}  // namespace slipstream::grammar
