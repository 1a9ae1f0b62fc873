// The filters, tests, methods, operators and global functions that templates can reach. Nothing else of the process is
// reachable from a template. Must never know syntax.
#pragma once

#include <string_view>

#include "engine/text/template_call.h"
#include "engine/text/template_program.h"

namespace slipstream::jinja {

/// Null when there is none of that name.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

/// What a Python type offers under a name: a method, a plain value, or one that the sandbox withholds.
enum class Attribute { kNone, kMethod, kValue, kUnsafe };
Attribute find_attribute(const Value& value, std::string_view name);
/// A kValue attribute, such as (3).real.
Value attribute_value(const Value& value, std::string_view name);
/// Runs a kMethod attribute. Methods that we know of but do not have are refused by name.
Value call_method(Evaluator& evaluator, const Value& self, const std::string& name, const Arguments& arguments);
/// The methods of each type; called through call_method.
Value call_string_method(Evaluator& evaluator, const Value& self, const std::string& name, const Arguments& arguments);
Value call_function(Evaluator& evaluator, Function function, const Arguments& arguments);
/// Names of the global functions, null for others.
const FunctionObject* find_function(std::string_view name);

Value apply_binary(Op op, const Value& left, const Value& right, Meter& meter);
Value apply_unary(Op op, const Value& operand);
bool apply_comparison(Op op, const Value& left, const Value& right, Meter& meter);
/// object[start:stop:step]; null values were left out.
Value apply_slice(const Value& object, const Value* start, const Value* stop, const Value* step, Meter& meter);
/// str + str with markupsafe's rules when one side is a Markup.
Value concatenate(const Value& left, const Value& right, Meter& meter);

/// int(text, base), float(text); false when Python raises a ValueError.
bool parse_integer(std::string_view text, int base, Integer* out);
bool parse_real(std::string_view text, double* out);
/// int(real); an error for nan and inf, and for what 128 bits do not hold.
Integer truncate(double real);

// Pieces of str methods that filters share.
Text strip_text(const Text& text, const Text* characters, bool left, bool right);
Text replace_text(const Text& text, const Text& old, const Text& fresh, int64_t count, Meter& meter);
std::vector<Text> split_lines(const Text& text, bool keep_ends);

}  // namespace slipstream::jinja
