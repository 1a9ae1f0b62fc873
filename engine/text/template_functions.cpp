// The global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now. Must never know syntax.
#include <array>
#include <cmath>
#include <ctime>

#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_format.h"

namespace slipstream::jinja {

namespace {

constexpr Integer kMaxRange = 100000;  // as in jinja2's sandbox

Value make_range(Evaluator&, const Arguments& arguments) {
  if (!arguments.named.empty()) fail_type("range() takes no keyword arguments");
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  const auto number = [&](size_t i) {
    const Value& value = *bound.get(i);
    if (value.is(Kind::kUndefined)) fail_undefined(value);
    if (!value.is_integral()) fail_type("'" + type_name(value) + "' object cannot be interpreted as an integer");
    return value.as_integer();
  };
  auto range = std::make_shared<RangeObject>();
  if (bound.has(1)) {
    range->start = number(0);
    range->stop = number(1);
    if (bound.has(2)) range->step = number(2);
  } else {
    range->stop = number(0);
  }
  // Bounds of 64 bits keep every item and the length inside 128.
  for (const Integer part : {range->start, range->stop, range->step})
    if (part > INT64_MAX || part < INT64_MIN) fail("a bound of range() is out of range");
  if (range->step == 0) fail("range() arg 3 must not be zero");
  if (range->size() > kMaxRange)
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  Value value;
  value.kind = Kind::kRange;
  value.object = std::move(range);
  return value;
}

// dict(mapping or pairs, **named)
std::shared_ptr<DictObject> build_dict(Evaluator& evaluator, const Arguments& arguments) {
  Meter& meter = evaluator.meter();
  if (arguments.positional.size() > 1) fail_type("dict expected at most 1 argument");
  auto dict = std::make_shared<DictObject>();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.entries().entries) dict->set(key, value, meter);
    } else {
      for (const Value& pair : collect(source, meter)) {
        const std::vector<Value> parts = collect(pair, meter);
        if (parts.size() != 2) fail("dictionary update sequence element has length " + std::to_string(parts.size()) +
                                    "; 2 is required");
        dict->set(parts[0], parts[1], meter);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict->set(Value::literal(name), value, meter);
  meter.spend(static_cast<int64_t>(dict->entries.size()));
  return dict;
}

Value make_namespace(Evaluator& evaluator, const Arguments& arguments) {
  const auto dict = build_dict(evaluator, arguments);
  Value value = evaluator.make_namespace();
  for (const auto& [key, attribute] : dict->entries) {
    if (!key.is(Kind::kString)) continue;
    const std::string& name = key.text().bytes();
    if (name.substr(0, 1) == "_")
      fail("a namespace attribute cannot begin with an underscore: '" + name + "'");
    object_as<NamespaceObject>(value).set(name, attribute);
  }
  return value;
}

Value make_cycler(Evaluator& evaluator, const Arguments& arguments) {
  if (!arguments.named.empty()) fail_type("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  auto cycler = std::make_shared<CyclerObject>();
  for (const Value& item : arguments.positional) cycler->depth = std::max(cycler->depth, depth_of(item) + 1);
  check_depth(cycler->depth, evaluator.meter());
  cycler->items = arguments.positional;
  Value value;
  value.kind = Kind::kCycler;
  value.object = std::move(cycler);
  return value;
}

Value make_joiner(Evaluator& evaluator, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  auto joiner = std::make_shared<JoinerObject>();
  joiner->separator = bound.has(0) ? *bound.get(0) : Value::literal(", ");
  joiner->depth = depth_of(joiner->separator) + 1;
  check_depth(joiner->depth, evaluator.meter());
  Value value;
  value.kind = Kind::kJoiner;
  value.object = std::move(joiner);
  return value;
}

// The server's local time, as Python's datetime.now() has it.
Value format_now(Evaluator& evaluator, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.text(0).bytes();
  constexpr size_t kMaxFormat = 256;
  if (format.size() > kMaxFormat)
    fail("the format of strftime_now() has " + std::to_string(format.size()) + " bytes; the limit is 256");
  const auto now = static_cast<std::time_t>(evaluator.now());
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 8192> buffer;
  // A leading mark tells an empty result from a buffer that was too small.
  const size_t count = std::strftime(buffer.data(), buffer.size(), ("x" + format).c_str(), &local);
  if (count == 0) fail("the format of strftime_now() makes too long a text");
  return Value::string(Text(std::string(buffer.data() + 1, count - 1), false));
}

struct Row {
  const char* name;
  Function function;
};
constexpr Row kFunctions[] = {
    {"range", Function::kRange},   {"dict", Function::kDict},
    {"namespace", Function::kNamespace}, {"cycler", Function::kCycler},
    {"joiner", Function::kJoiner}, {"raise_exception", Function::kRaise},
    {"strftime_now", Function::kStrftime}, {"lipsum", Function::kLipsum},
};

}  // namespace

const FunctionObject* find_function(std::string_view name) {
  static const std::vector<FunctionObject> objects = [] {
    std::vector<FunctionObject> all;
    for (const Row& row : kFunctions) {
      FunctionObject object;
      object.function = row.function;
      object.name = row.name;
      all.push_back(std::move(object));
    }
    return all;
  }();
  for (const FunctionObject& object : objects)
    if (object.name == name) return &object;
  return nullptr;
}

Value call_function(Evaluator& evaluator, Function function, const Arguments& arguments) {
  switch (function) {
    case Function::kRange: return make_range(evaluator, arguments);
    case Function::kDict: return Value::dict(build_dict(evaluator, arguments));
    case Function::kNamespace: return make_namespace(evaluator, arguments);
    case Function::kCycler: return make_cycler(evaluator, arguments);
    case Function::kJoiner: return make_joiner(evaluator, arguments);
    case Function::kStrftime: return format_now(evaluator, arguments);
    case Function::kRaise: {
      const Bound bound("raise_exception", arguments, {"message"}, 1);
      throw Failure{Failure::What::kRaised, to_str(*bound.get(0), evaluator.meter()).bytes(), 0};
    }
    case Function::kLipsum: break;
  }
  fail_unsupported("lipsum() is not supported: its text is random");
}

}  // namespace slipstream::jinja
