// Template source to tokens, with whitespace control resolved as jinja2 does under trim_blocks and lstrip_blocks.
// Must never know the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template_value.h"

namespace slipstream::jinja {

enum class TokenKind : uint8_t {
  kData, kBlockBegin, kBlockEnd, kVariableBegin, kVariableEnd,
  kName, kString, kInteger, kFloat, kOperator, kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;     // of data, names, operators; the value of strings
  Integer integer = 0;  // kInteger
  double real = 0;      // kFloat
};

/// The last token is kEnd. Throws Failure with the line.
std::vector<Token> tokenize(std::string_view source);

/// A token as error messages show it.
std::string describe(const Token& token);

}  // namespace slipstream::jinja
