// Regular expressions of ECMAScript's syntax (with the u flag), as far as they are regular: no look-around, no back
// references, no word boundaries. Knows no JSON.
#pragma once

#include <string_view>

#include "engine/grammar/expressions.h"

namespace slipstream::grammar {

enum class RegexMatch {
  kWhole,   // the expression describes the whole text
  kSearch,  // it occurs in the text somewhere, as in JSON Schema's `pattern`; ^ and $ are the ends of the text
};

/// The UTF-8 texts that match. Errors go to the context of `expressions` and name what is wrong and where.
Automaton regex_automaton(std::string_view pattern, RegexMatch match, Expressions& expressions);

}  // namespace slipstream::grammar
