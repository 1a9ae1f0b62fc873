// Values as models write them, to JSON text. Knows no format of calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/output/tool_set.h"

namespace slipstream::output {

/// The JSON text of a parameter's raw text, by the types that its schema allows: what reads as null, a boolean, a number, an
/// array or an object and may be one becomes it (arrays and objects also in Python's spelling); everything else is a string.
std::string value_json(std::string_view raw, uint8_t kinds);

/// The JSON text of one Python literal: strings, numbers, True, False, None, lists, tuples, dicts. Empty when it is none.
std::optional<std::string> python_json(std::string_view literal);

/// The text of a JSON string literal; empty when it is none.
std::optional<std::string> json_string(std::string_view literal);

/// Appends `text` as the inside of a JSON string, without quotes.
void append_escaped(std::string* out, std::string_view text);

/// Whether `text` is one JSON value within our bounds.
bool is_json(std::string_view text);

std::string_view trimmed(std::string_view text);
constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
/// Letters, digits and - _ . : what a function's name consists of.
constexpr bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

}  // namespace slipstream::output
