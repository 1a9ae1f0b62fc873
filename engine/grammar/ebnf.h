// Grammars as text: llama.cpp's GBNF and the like, `root ::= "a" [b-z]* ( rule | "c" ){2,3} # comment`.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/grammar/expressions.h"

namespace slipstream::grammar {

/// Adds the rules of `text` and returns its rule "root". Errors go to the context of `expressions`.
Expr parse_ebnf(std::string_view text, Expressions& expressions);

}  // namespace slipstream::grammar
