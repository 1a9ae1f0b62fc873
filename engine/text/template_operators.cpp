// Arithmetic, comparison, concatenation and slicing, with Python's rules for types. Must never know syntax.
#include <algorithm>
#include <cmath>

#include "engine/text/template_builtins.h"
#include "engine/text/template_format.h"

namespace slipstream::jinja {

namespace {

const char* symbol_of(Op op) {
  switch (op) {
    case Op::kAdd: return "+";
    case Op::kSub: return "-";
    case Op::kMul: return "*";
    case Op::kDiv: return "/";
    case Op::kFloorDiv: return "//";
    case Op::kMod: return "%";
    case Op::kPow: return "** or pow()";
    case Op::kLt: return "<";
    case Op::kLe: return "<=";
    case Op::kGt: return ">";
    case Op::kGe: return ">=";
    default: return "?";
  }
}

[[noreturn]] void fail_operands(Op op, const Value& left, const Value& right) {
  if (left.is(Kind::kUndefined)) fail_undefined(left);
  if (right.is(Kind::kUndefined)) fail_undefined(right);
  fail_type(std::string("unsupported operand type(s) for ") + symbol_of(op) + ": '" + type_name(left) + "' and '" +
            type_name(right) + "'");
}

[[noreturn]] void fail_overflow() { fail("an integer of the chat template exceeds 128 bits"); }

Value integer_power(Integer base, Integer exponent) {
  Integer result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return Value::of_integer(result);
}

Value apply_integers(Op op, Integer a, Integer b) {
  Integer result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      break;
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      break;
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      break;
    case Op::kDiv:
      if (b == 0) fail("division by zero");
      return Value::of_real(static_cast<double>(a) / static_cast<double>(b));
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) fail("integer division or modulo by zero");
      if (b == -1) {  // the one quotient that can overflow
        if (op == Op::kMod) break;
        if (__builtin_sub_overflow(Integer(0), a, &result)) fail_overflow();
        break;
      }
      const bool adjust = a % b != 0 && (a % b < 0) != (b < 0);
      result = op == Op::kMod ? a % b + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
      break;
    }
    default:
      if (b < 0) {
        if (a == 0) fail("0.0 cannot be raised to a negative power");
        return Value::of_real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return integer_power(a, b);
  }
  return Value::of_integer(result);
}

Value apply_reals(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return Value::of_real(a + b);
    case Op::kSub: return Value::of_real(a - b);
    case Op::kMul: return Value::of_real(a * b);
    case Op::kDiv:
      if (b == 0) fail("float division by zero");
      return Value::of_real(a / b);
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) fail(op == Op::kMod ? "float modulo" : "float floor division by zero");
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
      } else if (rest == 0) {
        rest = std::copysign(0.0, b);
      }
      if (op == Op::kMod) return Value::of_real(rest);
      if (quotient == 0) return Value::of_real(std::copysign(0.0, a / b));
      const double whole = std::floor(quotient);
      return Value::of_real(quotient - whole > 0.5 ? whole + 1 : whole);
    }
    default:
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(b) && b != std::floor(b)) fail_unsupported("complex numbers are not supported");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("numerical result out of range");
      return Value::of_real(result);
  }
}

// text or list, repeated.
Value repeat(const Value& value, Integer count, Meter& meter) {
  if (count < 0) count = 0;
  const Integer size = value.is(Kind::kString) ? static_cast<Integer>(value.text().size())
                                               : static_cast<Integer>(value.items().size());
  Integer total = 0;
  if (__builtin_mul_overflow(size, count, &total) || total > INT64_MAX) meter.check_size(UINT64_MAX);
  meter.check_size(static_cast<uint64_t>(total));
  if (size == 0) count = 0;
  if (value.is(Kind::kString)) {
    meter.spend_bytes(static_cast<size_t>(total));
    TextBuilder builder;
    for (Integer i = 0; i < count; ++i) builder.append(value.text());
    return Value::string(builder.take(), value.flag);
  }
  meter.spend(static_cast<int64_t>(total));
  std::vector<Value> items;
  for (Integer i = 0; i < count; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is(Kind::kList) ? Value::list(std::move(items), meter) : Value::tuple(std::move(items), meter);
}

}  // namespace

Value concatenate(const Value& left, const Value& right, Meter& meter) {
  const bool markup = left.flag || right.flag;
  TextBuilder builder;
  meter.check_size(static_cast<uint64_t>(left.text().size()) + right.text().size());
  meter.spend_bytes(left.text().size() + right.text().size());
  builder.append(markup ? escape_html(left, meter) : left.text());
  builder.append(markup ? escape_html(right, meter) : right.text());
  return Value::string(builder.take(), markup);
}

Value apply_binary(Op op, const Value& left, const Value& right, Meter& meter) {
  if (left.is_integral() && right.is_integral()) return apply_integers(op, left.as_integer(), right.as_integer());
  if (left.is_number() && right.is_number()) return apply_reals(op, left.as_real(), right.as_real());
  if (op == Op::kMod && left.is(Kind::kString)) return format_percent(left, right, meter);
  if (op == Op::kAdd) {
    if (left.is(Kind::kString) && right.is(Kind::kString)) return concatenate(left, right, meter);
    if (left.is(Kind::kString) && !right.is(Kind::kUndefined))
      fail_type("can only concatenate str (not \"" + type_name(right) + "\") to str");
    if (left.is_sequence() && left.kind == right.kind) {
      meter.spend(static_cast<int64_t>(left.items().size() + right.items().size()));
      std::vector<Value> items = left.items();
      items.insert(items.end(), right.items().begin(), right.items().end());
      return left.is(Kind::kList) ? Value::list(std::move(items), meter) : Value::tuple(std::move(items), meter);
    }
  }
  if (op == Op::kMul) {
    if ((left.is(Kind::kString) || left.is_sequence()) && right.is_integral())
      return repeat(left, right.as_integer(), meter);
    if ((right.is(Kind::kString) || right.is_sequence()) && left.is_integral())
      return repeat(right, left.as_integer(), meter);
  }
  fail_operands(op, left, right);
}

Value apply_unary(Op op, const Value& operand) {
  if (operand.is(Kind::kUndefined)) fail_undefined(operand);
  if (!operand.is_number()) fail_type("bad operand type for unary " + std::string(op == Op::kNeg ? "-" : "+") + ": '" +
                                      type_name(operand) + "'");
  if (operand.is(Kind::kFloat)) return Value::of_real(op == Op::kNeg ? -operand.real : operand.real);
  return op == Op::kNeg ? apply_integers(Op::kSub, 0, operand.as_integer()) : Value::of_integer(operand.as_integer());
}

bool apply_comparison(Op op, const Value& left, const Value& right, Meter& meter) {
  switch (op) {
    case Op::kEq: return equal(left, right, meter);
    case Op::kNe: return !equal(left, right, meter);
    case Op::kIn: return contains(right, left, meter);
    case Op::kNotIn: return !contains(right, left, meter);
    default: break;
  }
  const bool nan = (left.is(Kind::kFloat) && std::isnan(left.real) && right.is_number()) ||
                   (right.is(Kind::kFloat) && std::isnan(right.real) && left.is_number());
  if (nan) return false;
  switch (op) {
    case Op::kLt: return less(left, right, meter, "<");
    case Op::kGt: return less(right, left, meter, ">");
    case Op::kLe: return !less(right, left, meter, "<=");
    default: return !less(left, right, meter, ">=");
  }
}

Value apply_slice(const Value& object, const Value* start, const Value* stop, const Value* step, Meter& meter) {
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  if (!object.is(Kind::kString) && !object.is_sequence() && !object.is(Kind::kRange)) {
    if (object.is(Kind::kDict)) fail_type("unhashable type: 'slice'");
    fail_type("'" + type_name(object) + "' object is not subscriptable");
  }
  const auto bound = [&](const Value* value, Integer fallback) -> Integer {
    if (value == nullptr || value->is(Kind::kNone)) return fallback;
    if (!value->is_integral())
      fail_type("slice indices must be integers or None or have an __index__ method");
    return value->as_integer();
  };
  const Integer size = *length_of(object);
  // A step past the length takes one item; the bound keeps the sums below from overflowing.
  const Integer by = std::clamp<Integer>(bound(step, 1), -size - 1, size + 1);
  if (by == 0) fail("slice step cannot be zero");
  const auto clamp = [&](Integer index) {
    if (index < 0) index += size;
    if (index < 0) return by < 0 ? Integer(-1) : Integer(0);
    if (index >= size) return by < 0 ? size - 1 : size;
    return index;
  };
  const bool has_start = start != nullptr && !start->is(Kind::kNone);
  const bool has_stop = stop != nullptr && !stop->is(Kind::kNone);
  const Integer from = has_start ? clamp(bound(start, 0)) : by < 0 ? size - 1 : Integer(0);
  const Integer to = has_stop ? clamp(bound(stop, 0)) : by < 0 ? Integer(-1) : size;
  if (object.is(Kind::kRange)) {
    const auto& range = object_as<RangeObject>(object);
    auto out = std::make_shared<RangeObject>();
    out->start = range.start + from * range.step;
    out->stop = range.start + to * range.step;
    out->step = range.step * by;
    Value value;
    value.kind = Kind::kRange;
    value.object = std::move(out);
    return value;
  }
  if (object.is(Kind::kString)) {
    const Text& text = object.text();
    meter.spend_bytes(text.size());
    if (by == 1) {
      if (to <= from) return Value::string(Text(), object.flag);
      return Value::string(text.slice(text.offset_of(static_cast<int64_t>(from)), text.offset_of(static_cast<int64_t>(to))),
                           object.flag);
    }
    std::vector<size_t> offsets;  // of every character, and the end
    for (size_t at = 0; at < text.size();) {
      offsets.push_back(at);
      size_t length = 0;
      decode_utf8(text.bytes(), at, &length);
      at += length;
    }
    offsets.push_back(text.size());
    meter.spend(static_cast<int64_t>(offsets.size() / 16));
    TextBuilder builder;
    for (Integer i = from; by > 0 ? i < to : i > to; i += by)
      builder.append(text, offsets[static_cast<size_t>(i)], offsets[static_cast<size_t>(i) + 1]);
    return Value::string(builder.take(), object.flag);
  }
  std::vector<Value> items;
  for (Integer i = from; by > 0 ? i < to : i > to; i += by) items.push_back(object.items()[static_cast<size_t>(i)]);
  meter.spend(static_cast<int64_t>(items.size()));
  return object.is(Kind::kList) ? Value::list(std::move(items), meter) : Value::tuple(std::move(items), meter);
}

}  // namespace slipstream::jinja
