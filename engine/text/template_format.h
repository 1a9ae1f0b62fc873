// How values become text: Python's str() and repr(), json.dumps, the % operator, str.format and HTML escaping. Text of
// the request stays user text inside whatever is built around it. Must never know syntax or scopes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/text/template_value.h"

namespace slipstream::jinja {

/// str(value). Objects that Python prints with their address are refused.
Text to_str(const Value& value, Meter& meter);
/// repr(value).
Text to_repr(const Value& value, Meter& meter);
/// repr() of a float: the shortest digits that read back, in Python's layout ("1e-05", "1e+16", "0.1", "nan").
std::string real_to_string(double value);
std::string integer_to_string(Integer value, int base = 10);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // null: one line
  Text item_separator;
  Text key_separator;
};
/// json.dumps(value, …) of Python 3.
Text to_json(const Value& value, const JsonStyle& style, Meter& meter);

/// format % arguments
Value format_percent(const Value& format, const Value& arguments, Meter& meter);

struct Arguments;
/// format.format(*arguments, **named). Fields reach items and attributes through `look_up`.
using FieldLookup = std::function<Value(const Value&, const Value& name, bool is_attribute)>;
Value format_braces(const Value& format, const Arguments& arguments, const FieldLookup& look_up, Meter& meter);
/// format(value, specification).
Text format_value(const Value& value, std::string_view specification, Meter& meter);

/// markupsafe.escape(): a Markup stays as it is.
Text escape_html(const Value& value, Meter& meter);

}  // namespace slipstream::jinja
