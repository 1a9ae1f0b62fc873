// The tests: what stands after `is`. Must never know syntax.
#include <algorithm>
#include <array>

#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_format.h"
#include "engine/text/template_unicode.h"

namespace slipstream::jinja {

namespace {

using Test = TestFunction;

void none_expected(const char* name, const Arguments& arguments) { const Bound bound(name, arguments, {}); }

template <Kind kKind>
bool is_kind(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("test", arguments);
  return value.is(kKind);
}

template <bool kTruth>
bool is_boolean(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("test", arguments);
  return value.is(Kind::kBool) && value.flag == kTruth;
}

template <Op kOp>
bool compare(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  return apply_comparison(kOp, value, *bound.get(0), evaluator.meter());
}

bool remainder_is(Evaluator& evaluator, const Value& value, const Value& divisor, Integer expected) {
  return equal(apply_binary(Op::kMod, value, divisor, evaluator.meter()), Value::of_integer(expected),
               evaluator.meter());
}

bool is_odd(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  none_expected("odd", arguments);
  return remainder_is(evaluator, value, Value::of_integer(2), 1);
}

bool is_even(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  none_expected("even", arguments);
  return remainder_is(evaluator, value, Value::of_integer(2), 0);
}

bool is_divisible(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return remainder_is(evaluator, value, *bound.get(0), 0);
}

bool is_defined(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("defined", arguments);
  return !value.is(Kind::kUndefined);
}

bool is_number(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("number", arguments);
  return value.is_number();
}

bool is_iterable_test(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("iterable", arguments);
  return is_iterable(value) || value.is(Kind::kLoop);
}

bool is_sequence_test(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("sequence", arguments);
  switch (value.kind) {
    case Kind::kString: case Kind::kList: case Kind::kTuple: case Kind::kDict: case Kind::kRange: return true;
    case Kind::kUndefined: return true;  // it has a length of 0 and raises only when an item is fetched
    default: return false;
  }
}

bool is_callable(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("callable", arguments);
  switch (value.kind) {
    case Kind::kUndefined: case Kind::kMacro: case Kind::kMethod: case Kind::kFunction: case Kind::kLoop:
    case Kind::kJoiner: return true;
    default: return false;
  }
}

bool is_same(Evaluator&, const Value& value, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  const Value& other = *bound.get(0);
  if (value.kind != other.kind) return false;
  switch (value.kind) {
    case Kind::kNone: return true;
    case Kind::kBool: return value.flag == other.flag;
    // CPython keeps one object for each of these small integers.
    case Kind::kInt: return value.integer == other.integer && value.integer >= -5 && value.integer <= 256;
    default: return value.object != nullptr && value.object == other.object;
  }
}

bool is_escaped(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("escaped", arguments);
  return value.is(Kind::kString) && value.flag;
}

bool is_in(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Bound bound("in", arguments, {"seq"}, 1);
  return contains(*bound.get(0), value, evaluator.meter());
}

bool is_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("filter", arguments);
  return value.is(Kind::kString) && find_filter(value.text().bytes()) != nullptr;
}

bool is_test(Evaluator&, const Value& value, const Arguments& arguments) {
  none_expected("test", arguments);
  return value.is(Kind::kString) && find_test(value.text().bytes()) != nullptr;
}

// str.islower() and str.isupper(): some cased character, none of the other case.
template <bool kUpper>
bool has_case(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  none_expected("case test", arguments);
  const Value text = Value::string(to_str(value, evaluator.meter()));
  return is_truthy(call_string_method(evaluator, text, kUpper ? "isupper" : "islower", {}));
}

struct Row {
  std::string_view name;
  Test test;
};

constexpr Row kTests[] = {
    {"!=", compare<Op::kNe>}, {"<", compare<Op::kLt>}, {"<=", compare<Op::kLe>}, {"==", compare<Op::kEq>},
    {">", compare<Op::kGt>}, {">=", compare<Op::kGe>},
    {"boolean", is_kind<Kind::kBool>}, {"callable", is_callable}, {"defined", is_defined},
    {"divisibleby", is_divisible}, {"eq", compare<Op::kEq>}, {"equalto", compare<Op::kEq>}, {"escaped", is_escaped},
    {"even", is_even}, {"false", is_boolean<false>}, {"filter", is_filter}, {"float", is_kind<Kind::kFloat>},
    {"ge", compare<Op::kGe>}, {"greaterthan", compare<Op::kGt>}, {"gt", compare<Op::kGt>}, {"in", is_in},
    {"integer", is_kind<Kind::kInt>}, {"iterable", is_iterable_test}, {"le", compare<Op::kLe>},
    {"lessthan", compare<Op::kLt>}, {"lower", has_case<false>}, {"lt", compare<Op::kLt>},
    {"mapping", is_kind<Kind::kDict>}, {"ne", compare<Op::kNe>}, {"none", is_kind<Kind::kNone>},
    {"number", is_number}, {"odd", is_odd}, {"sameas", is_same}, {"sequence", is_sequence_test},
    {"string", is_kind<Kind::kString>}, {"test", is_test}, {"true", is_boolean<true>},
    {"undefined", is_kind<Kind::kUndefined>}, {"upper", has_case<true>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kTests), std::end(kTests), name, [](const Row& row, std::string_view value) {
        return row.name < value;
      });
  return found != std::end(kTests) && found->name == name ? found->test : nullptr;
}

}  // namespace slipstream::jinja
