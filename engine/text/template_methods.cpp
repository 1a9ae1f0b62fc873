// Which names each Python type offers, and the methods of list, dict and the smaller types. Must never know syntax.
#include <algorithm>
#include <cmath>

#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_format.h"

namespace slipstream::jinja {

namespace {

// Sorted. Every public method of CPython 3.11's type, so that `is defined` answers as jinja2 does; those that
// call_string_method and the others below lack are refused by name when they are called.
constexpr std::string_view kStringMethods[] = {
    "capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find", "format", "format_map",
    "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
    "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "maketrans", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill"};
constexpr std::string_view kMarkupMethods[] = {"escape", "striptags", "unescape"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
constexpr std::string_view kListUnsafe[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::string_view kTupleMethods[] = {"count", "index"};
constexpr std::string_view kDictMethods[] = {"copy", "fromkeys", "get", "items", "keys", "values"};
constexpr std::string_view kDictUnsafe[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kIntMethods[] = {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes",
                                            "to_bytes"};
constexpr std::string_view kIntValues[] = {"denominator", "imag", "numerator", "real"};
constexpr std::string_view kFloatMethods[] = {"as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"};
constexpr std::string_view kFloatValues[] = {"imag", "real"};
constexpr std::string_view kRangeMethods[] = {"count", "index"};
constexpr std::string_view kRangeValues[] = {"start", "step", "stop"};

template <size_t kSize>
bool has(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value call_list_method(Evaluator& evaluator, const Value& self, const std::string& name, const Arguments& arguments) {
  Meter& meter = evaluator.meter();
  const std::vector<Value>& items = self.items();
  if (name == "copy") return self;
  const Bound bound(name, arguments, {"value", "start", "stop"}, 1);
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); };
  if (name == "count") {
    int64_t count = 0;
    for (const Value& item : items) count += equal(item, *bound.get(0), meter);
    return Value::of_integer(count);
  }
  for (int64_t i = clamp(bound.integer(1, 0)); i < clamp(bound.integer(2, size)); ++i)
    if (equal(items[static_cast<size_t>(i)], *bound.get(0), meter)) return Value::of_integer(i);
  fail(to_repr(*bound.get(0), meter).bytes() + " is not in list");
}

Value call_dict_method(Evaluator& evaluator, const Value& self, const std::string& name, const Arguments& arguments) {
  Meter& meter = evaluator.meter();
  if (name == "get") {
    if (!arguments.named.empty()) fail_type("dict.get() takes no keyword arguments");
    const Bound bound("get", arguments, {"key", "default"}, 1);
    if (!is_hashable(*bound.get(0))) fail_type("unhashable type: '" + type_name(*bound.get(0)) + "'");
    if (const Value* found = self.entries().find(*bound.get(0))) return *found;
    return bound.has(1) ? *bound.get(1) : Value::none();
  }
  if (name == "fromkeys") {
    const Bound bound("fromkeys", arguments, {"iterable", "value"}, 1);
    auto dict = std::make_shared<DictObject>();
    for (const Value& key : collect(*bound.get(0), meter))
      dict->set(key, bound.has(1) ? *bound.get(1) : Value::none(), meter);
    return Value::dict(std::move(dict));
  }
  const Bound bound(name, arguments, {});
  if (name == "copy") return self;
  return Value::view(self, name == "keys" ? ViewKind::kKeys : name == "values" ? ViewKind::kValues : ViewKind::kItems);
}

Value call_number_method(const Value& self, const std::string& name, const Arguments& arguments) {
  const Bound bound(name, arguments, {});
  if (name == "conjugate") return self.is(Kind::kBool) ? Value::of_integer(self.as_integer()) : self;
  if (name == "is_integer") return Value::boolean(std::isfinite(self.real) && self.real == std::floor(self.real));
  if (name == "bit_length" || name == "bit_count") {
    auto rest = static_cast<unsigned __int128>(self.as_integer());
    if (self.as_integer() < 0) rest = -rest;
    int64_t count = 0;
    for (; rest != 0; rest >>= 1) count += name == "bit_length" ? 1 : static_cast<int64_t>(rest & 1);
    return Value::of_integer(count);
  }
  fail_unsupported("the method " + type_name(self) + "." + name + "() is not supported in chat templates");
}

Value call_cycler_method(const Value& self, const std::string& name, const Arguments& arguments) {
  const Bound bound(name, arguments, {});
  auto& cycler = object_as<CyclerObject>(self);
  if (name == "reset") {
    cycler.position = 0;
    return Value::none();
  }
  Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

}  // namespace

Attribute find_attribute(const Value& value, std::string_view name) {
  if (name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__") return Attribute::kUnsafe;
  const auto pick = [](bool method, bool unsafe, bool plain) {
    return method ? Attribute::kMethod : unsafe ? Attribute::kUnsafe : plain ? Attribute::kValue : Attribute::kNone;
  };
  switch (value.kind) {
    case Kind::kString: return pick(has(kStringMethods, name) || (value.flag && has(kMarkupMethods, name)), false, false);
    case Kind::kList: return pick(has(kListMethods, name), has(kListUnsafe, name), false);
    case Kind::kTuple:
      return pick(has(kTupleMethods, name), false, value.sequence().group && (name == "grouper" || name == "list"));
    case Kind::kDict: return pick(has(kDictMethods, name), has(kDictUnsafe, name), false);
    case Kind::kBool:
    case Kind::kInt: return pick(has(kIntMethods, name), false, has(kIntValues, name));
    case Kind::kFloat: return pick(has(kFloatMethods, name), false, has(kFloatValues, name));
    case Kind::kRange: return pick(has(kRangeMethods, name), false, has(kRangeValues, name));
    case Kind::kCycler: return pick(name == "next" || name == "reset", false, name == "current");
    default: return Attribute::kNone;
  }
}

Value attribute_value(const Value& value, std::string_view name) {
  switch (value.kind) {
    case Kind::kTuple: return value.items()[name == "grouper" ? 0 : 1];
    case Kind::kCycler: {
      const auto& cycler = object_as<CyclerObject>(value);
      return cycler.items[cycler.position];
    }
    case Kind::kRange: {
      const auto& range = object_as<RangeObject>(value);
      return Value::of_integer(name == "start" ? range.start : name == "stop" ? range.stop : range.step);
    }
    case Kind::kFloat: return name == "imag" ? Value::of_real(0) : value;
    default:
      return Value::of_integer(name == "imag" ? Integer(0) : name == "denominator" ? Integer(1) : value.as_integer());
  }
}

Value call_method(Evaluator& evaluator, const Value& self, const std::string& name, const Arguments& arguments) {
  evaluator.meter().spend(1);
  switch (self.kind) {
    case Kind::kString: return call_string_method(evaluator, self, name, arguments);
    case Kind::kList:
    case Kind::kTuple: return call_list_method(evaluator, self, name, arguments);
    case Kind::kDict: return call_dict_method(evaluator, self, name, arguments);
    case Kind::kCycler: return call_cycler_method(self, name, arguments);
    case Kind::kRange: {
      const Bound bound(name, arguments, {"value"}, 1);
      const std::vector<Value> items = collect(self, evaluator.meter());
      return call_list_method(evaluator, Value::list(items, evaluator.meter()), name, arguments);
    }
    default: return call_number_method(self, name, arguments);
  }
}

}  // namespace slipstream::jinja
