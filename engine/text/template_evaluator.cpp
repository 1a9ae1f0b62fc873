// Expressions, attribute access and calls. Must never know JSON, HTTP or tokens.
#include "engine/text/template_evaluator.h"

#include <algorithm>

#include "engine/text/template_builtins.h"
#include "engine/text/template_format.h"
#include "kernels/check.h"

namespace slipstream::jinja {

namespace {

// Levels of recursion for one call: a call nests through some statements and expressions.
constexpr int kLevelsPerCall = 12;

// How jinja2 names the object that lacks an attribute.
std::string object_name(const Value& value) {
  if (value.is(Kind::kNone)) return "None";
  return type_name(value) + " object";
}

Value missing_attribute(const Value& object, const Value& key, Meter& meter) {
  if (key.is(Kind::kString))
    return Value::undefined("'" + object_name(object) + "' has no attribute '" + key.text().bytes() + "'");
  return Value::undefined(object_name(object) + " has no element " + to_repr(key, meter).bytes());
}

Value unsafe_attribute(const Value& object, std::string_view name) {
  return Value::undefined("access to attribute '" + std::string(name) + "' of '" + type_name(object) +
                          "' object is unsafe.");
}

}  // namespace

Evaluator::Level::Level(Evaluator* evaluator) : evaluator_(*evaluator) {
  evaluator_.meter_.spend(1);
  if (evaluator_.levels_ >= kLevelsPerCall * evaluator_.meter_.max_depth())
    throw Failure{Failure::What::kLimit, "the chat template recurses too deeply", 0};
  ++evaluator_.levels_;
}

Evaluator::CallLevel::CallLevel(Evaluator* evaluator) : evaluator_(*evaluator) {
  if (evaluator_.calls_ >= evaluator_.meter_.max_depth())
    throw Failure{Failure::What::kLimit,
                  "the chat template's calls nest more than " + std::to_string(evaluator_.meter_.max_depth()) + " deep",
                  0};
  ++evaluator_.calls_;
}

const Value* Scope::find(int symbol) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get())
    for (const auto& [present, value] : scope->variables)
      if (present == symbol) return &value;
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  for (auto& [present, old] : variables)
    if (present == symbol) {
      old = std::move(value);
      return;
    }
  variables.emplace_back(symbol, std::move(value));
}

Evaluator::Evaluator(const Program& program, Meter meter, int64_t now_unix_seconds)
    : program_(program), meter_(meter), now_(now_unix_seconds), context_(program.symbols.size()) {
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const FunctionObject* function = find_function(program.symbols[i]);
    if (function == nullptr) continue;
    Value value;
    value.kind = Kind::kFunction;
    value.object = std::make_shared<FunctionObject>(*function);
    context_[i] = std::move(value);
  }
}

Evaluator::~Evaluator() {
  for (const ScopePtr& scope : captured_scopes_) scope->variables.clear();
  for (const auto& space : namespaces_) space->attributes.clear();
}

void Evaluator::set_variable(std::string_view name, Value value) {
  for (size_t i = 0; i < program_.symbols.size(); ++i)
    if (program_.symbols[i] == name) context_[i] = std::move(value);
}

Value Evaluator::make_namespace() {
  auto object = std::make_shared<NamespaceObject>();
  namespaces_.push_back(object);
  Value value;
  value.kind = Kind::kNamespace;
  value.object = std::move(object);
  return value;
}

Value Evaluator::eval(const Expr& expr, const ScopePtr& scope) {
  const Level level(this);
  try {
    switch (expr.kind) {
      case ExprKind::kConst: return expr.constant;
      case ExprKind::kName: return eval_name(expr, scope);
      case ExprKind::kList:
      case ExprKind::kTuple:
      case ExprKind::kDict: return eval_container(expr, scope);
      case ExprKind::kGetAttr: return get_attribute(eval(*expr.items[0], scope), expr.name);
      case ExprKind::kGetItem: {
        const Value object = eval(*expr.items[0], scope);
        return get_item(object, eval(*expr.items[1], scope));
      }
      case ExprKind::kSlice: return eval_slice(expr, scope);
      case ExprKind::kCall: return eval_call(expr, scope);
      case ExprKind::kFilter: return eval_filter(expr, scope);
      case ExprKind::kTest: return eval_test(expr, scope);
      case ExprKind::kUnary: {
        const Value operand = eval(*expr.items[0], scope);
        return expr.op == Op::kNot ? Value::boolean(!is_truthy(operand)) : apply_unary(expr.op, operand);
      }
      case ExprKind::kBinary: {
        const Value left = eval(*expr.items[0], scope);
        return apply_binary(expr.op, left, eval(*expr.items[1], scope), meter_);
      }
      case ExprKind::kAnd:
      case ExprKind::kOr: {
        Value left = eval(*expr.items[0], scope);
        return is_truthy(left) == (expr.kind == ExprKind::kOr) ? left : eval(*expr.items[1], scope);
      }
      case ExprKind::kConcat: return eval_concat(expr, scope);
      case ExprKind::kCompare: return eval_compare(expr, scope);
      case ExprKind::kConditional: return eval_conditional(expr, scope);
      case ExprKind::kCaptured: return captured_;
    }
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = expr.line;
    throw;
  }
  return Value();
}

Value Evaluator::eval_name(const Expr& expr, const ScopePtr& scope) {
  if (const Value* found = scope->find(expr.symbol)) return *found;
  const auto& global = context_[static_cast<size_t>(expr.symbol)];
  return global ? *global : Value::undefined("'" + expr.name + "' is undefined");
}

Value Evaluator::eval_container(const Expr& expr, const ScopePtr& scope) {
  if (expr.kind == ExprKind::kDict) {
    auto dict = std::make_shared<DictObject>();
    for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
      Value key = eval(*expr.items[i], scope);
      dict->set(std::move(key), eval(*expr.items[i + 1], scope), meter_);
    }
    return Value::dict(std::move(dict));
  }
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(eval(*item, scope));
  return expr.kind == ExprKind::kList ? Value::list(std::move(items), meter_) : Value::tuple(std::move(items), meter_);
}

Value Evaluator::eval_slice(const Expr& expr, const ScopePtr& scope) {
  const Value object = eval(*expr.items[0], scope);
  Value bounds[3];
  const Value* given[3] = {nullptr, nullptr, nullptr};
  for (int i = 0; i < 3; ++i) {
    const ExprPtr& bound = expr.items[static_cast<size_t>(i) + 1];
    if (bound == nullptr) continue;
    bounds[i] = eval(*bound, scope);
    given[i] = &bounds[i];
  }
  return apply_slice(object, given[0], given[1], given[2], meter_);
}

Arguments Evaluator::eval_arguments(const CallSite& site, const ScopePtr& scope) {
  Arguments arguments;
  arguments.positional.reserve(site.positional.size());
  for (const ExprPtr& argument : site.positional) arguments.positional.push_back(eval(*argument, scope));
  for (const auto& [name, argument] : site.named) arguments.named.emplace_back(name, eval(*argument, scope));
  if (site.star != nullptr)
    for (Value& item : collect(eval(*site.star, scope), meter_)) arguments.positional.push_back(std::move(item));
  if (site.star_star != nullptr) {
    const Value named = eval(*site.star_star, scope);
    if (!named.is(Kind::kDict)) fail_type("argument after ** must be a mapping, not " + type_name(named));
    for (const auto& [key, value] : named.entries().entries) {
      if (!key.is(Kind::kString)) fail_type("keywords must be strings");
      if (arguments.find(key.text().bytes()) != nullptr)
        fail_type("got multiple values for keyword argument '" + key.text().bytes() + "'");
      arguments.named.emplace_back(key.text().bytes(), value);
    }
  }
  return arguments;
}

Value Evaluator::eval_call(const Expr& expr, const ScopePtr& scope) {
  const Value callee = eval(*expr.items[0], scope);
  return call(callee, eval_arguments(*expr.call, scope));
}

Value Evaluator::eval_filter(const Expr& expr, const ScopePtr& scope) {
  if (expr.filter == nullptr) fail("there is no filter '" + expr.name + "'");
  const Value input = eval(*expr.items[0], scope);
  return expr.filter(*this, input, eval_arguments(*expr.call, scope));
}

Value Evaluator::eval_test(const Expr& expr, const ScopePtr& scope) {
  if (expr.test == nullptr) fail("there is no test '" + expr.name + "'");
  const Value input = eval(*expr.items[0], scope);
  return Value::boolean(expr.test(*this, input, eval_arguments(*expr.call, scope)));
}

Value Evaluator::eval_concat(const Expr& expr, const ScopePtr& scope) {
  TextBuilder builder;
  for (const ExprPtr& item : expr.items) {
    builder.append(to_str(eval(*item, scope), meter_));
    meter_.check_size(builder.size());
  }
  meter_.spend_bytes(builder.size());
  return Value::string(builder.take());
}

Value Evaluator::eval_compare(const Expr& expr, const ScopePtr& scope) {
  Value left = eval(*expr.items[0], scope);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = eval(*expr.items[i + 1], scope);
    if (!apply_comparison(expr.ops[i], left, right, meter_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::eval_conditional(const Expr& expr, const ScopePtr& scope) {
  if (is_truthy(eval(*expr.items[0], scope))) return eval(*expr.items[1], scope);
  if (expr.items[2] != nullptr) return eval(*expr.items[2], scope);
  return Value::undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " evaluated to false and no else section was defined.");
}

// jinja2 prefers an attribute of the Python object over an item here, and an item over an attribute in get_item.
Value Evaluator::get_attribute(const Value& object, std::string_view name) {
  meter_.spend(1);
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  switch (find_attribute(object, name)) {
    case Attribute::kMethod: return Value::method(object, name);
    case Attribute::kValue: return attribute_value(object, name);
    case Attribute::kUnsafe: return unsafe_attribute(object, name);
    case Attribute::kNone: break;
  }
  if (object.is(Kind::kLoop) && name.substr(0, 1) != "_") {
    Value value = loop_attribute(object, name);
    if (!value.is(Kind::kUndefined) || value.object != nullptr) return value;
  }
  if (object.is(Kind::kNamespace))
    if (const Value* found = object_as<NamespaceObject>(object).find(name)) return *found;
  if (object.is(Kind::kMacro) && name == "name") return Value::literal(object_as<MacroObject>(object).code->name);
  if (object.is(Kind::kMacro) && name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : object_as<MacroObject>(object).code->parameters)
      names.push_back(Value::literal(parameter));
    return Value::tuple(std::move(names), meter_);
  }
  if (object.is(Kind::kDict))
    if (const Value* found = object.entries().find(name)) return *found;
  return missing_attribute(object, Value::literal(name), meter_);
}

Value Evaluator::get_item(const Value& object, const Value& key) {
  meter_.spend(1);
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  if (object.is(Kind::kDict) && is_hashable(key))
    if (const Value* found = object.entries().find(key)) return *found;
  const std::optional<Integer> size =
      object.is(Kind::kString) || object.is_sequence() || object.is(Kind::kRange) ? length_of(object) : std::nullopt;
  if (size && key.is_integral()) {
    Integer index = key.as_integer();
    if (index < 0) index += *size;
    if (index < 0 || index >= *size) return missing_attribute(object, key, meter_);
    if (object.is_sequence()) return object.items()[static_cast<size_t>(index)];
    if (object.is(Kind::kRange)) {
      const auto& range = object_as<RangeObject>(object);
      return Value::of_integer(range.start + index * range.step);
    }
    const Text& text = object.text();
    meter_.spend_bytes(text.ascii() ? 1 : 2 * text.size());  // one pass for the length, one for the place
    const size_t offset = text.offset_of(static_cast<int64_t>(index));
    size_t length = 0;
    decode_utf8(text.bytes(), offset, &length);
    return Value::string(text.slice(offset, offset + length), object.flag);
  }
  if (!key.is(Kind::kString)) return missing_attribute(object, key, meter_);
  const std::string& name = key.text().bytes();
  if (object.is(Kind::kDict)) {
    switch (find_attribute(object, name)) {
      case Attribute::kMethod: return Value::method(object, name);
      case Attribute::kUnsafe: return unsafe_attribute(object, name);
      default: return missing_attribute(object, key, meter_);
    }
  }
  return get_attribute(object, name);
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  const Level level(this);
  const CallLevel call_level(this);
  switch (callee.kind) {
    case Kind::kMethod: {
      const auto& method = object_as<MethodObject>(callee);
      if (method.self.is(Kind::kLoop)) return call_loop_method(method.self, method.name, arguments);
      return call_method(*this, method.self, method.name, arguments);
    }
    case Kind::kFunction: return call_function(*this, object_as<FunctionObject>(callee).function, arguments);
    case Kind::kMacro: return call_macro(object_as<MacroObject>(callee), arguments);
    case Kind::kLoop: {
      const Bound bound("loop", arguments, {"iterable"}, 1);
      return render_loop(object_as<LoopObject>(callee), *bound.get(0));
    }
    case Kind::kJoiner: {
      const Bound bound("joiner", arguments, {});
      auto& joiner = object_as<JoinerObject>(callee);
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return Value::literal("");
    }
    case Kind::kUndefined: fail_undefined(callee);
    default: fail_type("'" + type_name(callee) + "' object is not callable");
  }
}

void Evaluator::bind_macro(const MacroObject& macro, const Arguments& arguments, const ScopePtr& scope) {
  const MacroCode& code = *macro.code;
  const size_t count = code.parameters.size();
  std::vector<bool> taken(arguments.named.size(), false);
  std::vector<std::optional<Value>> values(count);
  bool caller_found = arguments.positional.size() >= count &&
                      std::find(code.parameters.begin(), code.parameters.end(), "caller") != code.parameters.end();
  for (size_t i = 0; i < count; ++i) {
    if (i < arguments.positional.size()) {
      values[i] = arguments.positional[i];
      continue;
    }
    caller_found |= code.parameters[i] == "caller";
    for (size_t k = 0; k < arguments.named.size(); ++k) {
      if (arguments.named[k].first != code.parameters[i]) continue;
      values[i] = arguments.named[k].second;
      taken[k] = true;
    }
  }
  if (code.uses_caller && !caller_found) {
    Value caller = Value::undefined("No caller defined");
    for (size_t k = 0; k < arguments.named.size(); ++k) {
      if (arguments.named[k].first != "caller") continue;
      caller = arguments.named[k].second;
      taken[k] = true;
    }
    scope->set(kSymbolCaller, std::move(caller));
  }
  auto named = std::make_shared<DictObject>();
  for (size_t k = 0; k < arguments.named.size(); ++k)
    if (!taken[k]) named->set(Value::literal(arguments.named[k].first), arguments.named[k].second, meter_);
  if (!named->entries.empty() && !code.uses_kwargs)
    fail_type("macro '" + code.name + "' takes no keyword argument '" + named->entries[0].first.text().bytes() + "'");
  if (code.uses_kwargs) scope->set(kSymbolKwargs, Value::dict(std::move(named)));
  if (code.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
    scope->set(kSymbolVarargs, Value::tuple(std::move(rest), meter_));
  } else if (arguments.positional.size() > count) {
    fail_type("macro '" + code.name + "' takes not more than " + std::to_string(count) + " argument(s)");
  }
  // A default sees every parameter; its own name and the later ones that were not given are undefined.
  for (size_t i = 0; i < count; ++i)
    scope->set(code.symbols[i], values[i] ? *values[i] : Value::undefined("'" + code.parameters[i] + "' is undefined"));
  const size_t first_default = count - code.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    if (values[i]) continue;
    scope->set(code.symbols[i], i < first_default
                                    ? Value::undefined("parameter '" + code.parameters[i] + "' was not provided")
                                    : eval(*code.defaults[i - first_default], scope));
  }
}

Value Evaluator::call_macro(const MacroObject& macro, const Arguments& arguments) {
  TextBuilder inner;
  const Redirect redirect(&out_, &inner);
  auto scope = std::make_shared<Scope>();
  scope->parent = macro.scope;
  bind_macro(macro, arguments, scope);
  run_body(macro.code->body, scope);
  return Value::string(inner.take());
}

Value Evaluator::filter(std::string_view name, const Value& input, const Arguments& arguments) {
  const FilterFunction function = find_filter(name);
  if (function == nullptr) fail("there is no filter '" + std::string(name) + "'");
  return function(*this, input, arguments);
}

bool Evaluator::test(std::string_view name, const Value& input, const Arguments& arguments) {
  const TestFunction function = find_test(name);
  if (function == nullptr) fail("there is no test '" + std::string(name) + "'");
  return function(*this, input, arguments);
}

}  // namespace slipstream::jinja
