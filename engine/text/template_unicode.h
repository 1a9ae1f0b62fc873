// What Python's str methods know about characters: whitespace, letters, case, printability. Owns no text; must never
// know values. Tables: utf8proc, plus Unicode's SpecialCasing for the full case mappings.
#pragma once

#include <string>
#include <string_view>

#include "engine/text/template_text.h"

namespace slipstream::jinja {

/// str.isspace() of one character; also what \s matches in Python's re.
bool is_space(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);  // category Nd
bool is_digit(char32_t code);    // str.isdigit(): Nd and superscripts, circled digits and their like
bool is_numeric(char32_t code);
bool is_alnum(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_title(char32_t code);
/// repr() prints the character as it is.
bool is_printable(char32_t code);
/// \w: also the characters of an identifier, close enough to str.isidentifier().
bool is_word(char32_t code);
/// The digit's value for is_decimal characters.
int decimal_value(char32_t code);

/// str.upper(), str.lower(), str.capitalize(), str.title(), str.swapcase(); each character keeps its provenance.
Text to_upper(const Text& text);
Text to_lower(const Text& text);
Text to_capitalized(const Text& text);
Text to_title(const Text& text);
Text to_swapped(const Text& text);

}  // namespace slipstream::jinja
