// The filters on strings and numbers, and the table of all filters. Must never know syntax.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_filters.h"
#include "engine/text/template_format.h"
#include "engine/text/template_unicode.h"

namespace slipstream::jinja {

namespace {

// A string as it is, anything else as str().
Value soft_string(const Value& value, Meter& meter) {
  return value.is(Kind::kString) ? value : Value::string(to_str(value, meter));
}

template <Text (*kMap)(const Text&)>
Value map_text(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("filter", arguments, {});
  const Value text = soft_string(input, evaluator.meter());
  evaluator.meter().spend_bytes(text.text().size());
  return Value::string(kMap(text.text()), text.flag);
}

// Each word's first character upper, the rest lower; words end at what jinja2 says, not at Python's str.title().
Value title(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("title", arguments, {});
  const Value value = soft_string(input, evaluator.meter());
  const Text& text = value.text();
  evaluator.meter().spend_bytes(text.size());
  const auto separates = [](char32_t code) {
    return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
  };
  TextBuilder builder;
  size_t at = 0;
  while (at < text.size()) {
    size_t length = 0;
    if (separates(decode_utf8(text.bytes(), at, &length))) {
      builder.append(text, at, at + length);
      at += length;
      continue;
    }
    builder.append(to_upper(text.slice(at, at + length)));
    size_t end = at + length;
    while (end < text.size()) {
      size_t step = 0;
      if (separates(decode_utf8(text.bytes(), end, &step))) break;
      end += step;
    }
    builder.append(to_lower(text.slice(at + length, end)));
    at = end;
  }
  return Value::string(builder.take());
}

Value trim(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  Arguments passed;
  if (bound.has(0)) passed.positional.push_back(*bound.get(0));
  return call_string_method(evaluator, soft_string(input, evaluator.meter()), "strip", passed);
}

Value center(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  Arguments passed;
  passed.positional.push_back(bound.has(0) ? *bound.get(0) : Value::of_integer(80));
  return call_string_method(evaluator, soft_string(input, evaluator.meter()), "center", passed);
}

Value replace(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  Meter& meter = evaluator.meter();
  return Value::string(replace_text(to_str(input, meter), to_str(*bound.get(0), meter), to_str(*bound.get(1), meter),
                                    bound.integer(2, -1), meter));
}

Value to_string(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return soft_string(input, evaluator.meter());
}

Value mark_safe(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return Value::string(to_str(input, evaluator.meter()), true);
}

Value escape(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  return Value::string(escape_html(input, evaluator.meter()), true);
}

Value force_escape(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("forceescape", arguments, {});
  Meter& meter = evaluator.meter();
  return Value::string(escape_html(Value::string(to_str(input, meter)), meter), true);
}

Value format(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  Meter& meter = evaluator.meter();
  if (!arguments.positional.empty() && !arguments.named.empty())
    fail("can't handle positional and keyword arguments at the same time");
  const Value text = soft_string(input, meter);
  if (arguments.named.empty()) return format_percent(text, Value::tuple(arguments.positional, meter), meter);
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, value] : arguments.named) dict->set(Value::literal(name), value, meter);
  return format_percent(text, Value::dict(std::move(dict)), meter);
}

Value indent(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  Meter& meter = evaluator.meter();
  if (input.is(Kind::kUndefined)) fail_undefined(input);
  if (!input.is(Kind::kString)) fail_type("indent needs a string, not " + type_name(input));
  Text prefix;
  if (bound.has(0) && bound.get(0)->is(Kind::kString)) {
    prefix = bound.text(0);
  } else {
    const int64_t width = std::max<int64_t>(0, bound.integer(0, 4));
    meter.check_size(static_cast<uint64_t>(width));
    prefix = Text(std::string(static_cast<size_t>(width), ' '), false);
  }
  const bool blank = bound.truth(2, false);
  TextBuilder source;
  source.append(input.text());
  source.append("\n", false);
  TextBuilder builder;
  if (bound.truth(1, false)) builder.append(prefix);
  bool first = true;
  for (const Text& line : split_lines(source.take(), false)) {
    if (!first) builder.append("\n", false);
    if (!first && (blank || !line.empty())) builder.append(prefix);
    first = false;
    builder.append(line);
    meter.check_size(builder.size());
  }
  meter.spend_bytes(builder.size());
  return Value::string(builder.take(), input.flag);
}

Value truncate_text(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  Meter& meter = evaluator.meter();
  if (!input.is(Kind::kString)) {
    if (input.is(Kind::kUndefined)) return input;
    fail_type("truncate needs a string, not " + type_name(input));
  }
  const Text& text = input.text();
  const Text end = bound.has(2) ? bound.text(2) : Text("...", false);
  // Bounded so that their sum is; no text is longer.
  const int64_t length = std::min(bound.integer(0, 255), int64_t{1} << 40);
  const int64_t leeway = std::min(bound.integer(3, 5), int64_t{1} << 40);
  if (length < end.length()) fail("expected length >= " + std::to_string(end.length()) + ", got " + std::to_string(length));
  if (leeway < 0) fail("expected leeway >= 0, got " + std::to_string(leeway));
  meter.spend_bytes(text.size());
  if (text.length() <= length + leeway) return input;
  size_t cut = text.offset_of(length - end.length());
  if (!bound.truth(1, false)) {
    const size_t space = std::string_view(text.bytes()).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  return concatenate(Value::string(text.slice(0, cut), input.flag),
                     bound.has(2) ? *bound.get(2) : Value::string(end), meter);
}

Value word_count(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  const Text text = to_str(input, evaluator.meter());
  evaluator.meter().spend_bytes(text.size());
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    const bool word = is_word(decode_utf8(text.bytes(), at, &length));
    count += word && !inside;
    inside = word;
    at += length;
  }
  return Value::of_integer(count);
}

Value to_integer(Evaluator&, const Value& input, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value fallback = bound.has(0) ? *bound.get(0) : Value::of_integer(0);
  if (input.is(Kind::kUndefined)) fail_undefined(input);
  if (input.is_integral()) return Value::of_integer(input.as_integer());
  if (input.is(Kind::kFloat)) return std::isnan(input.real) ? fallback : Value::of_integer(truncate(input.real));
  if (!input.is(Kind::kString)) return fallback;
  Integer number = 0;
  if (parse_integer(input.text().bytes(), static_cast<int>(bound.integer(1, 10)), &number))
    return Value::of_integer(number);
  double real = 0;
  if (!parse_real(input.text().bytes(), &real) || !std::isfinite(real)) return fallback;
  return Value::of_integer(truncate(real));
}

Value to_real(Evaluator&, const Value& input, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  const Value fallback = bound.has(0) ? *bound.get(0) : Value::of_real(0);
  if (input.is(Kind::kUndefined)) fail_undefined(input);
  if (input.is_number()) return Value::of_real(input.as_real());
  double real = 0;
  return input.is(Kind::kString) && parse_real(input.text().bytes(), &real) ? Value::of_real(real) : fallback;
}

Value absolute(Evaluator&, const Value& input, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (input.is(Kind::kFloat)) return Value::of_real(std::fabs(input.real));
  if (!input.is_integral()) fail_type("bad operand type for abs(): '" + type_name(input) + "'");
  return input.as_integer() < 0 ? apply_unary(Op::kNeg, input) : Value::of_integer(input.as_integer());
}

double round_real(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 350) return value;
  if (precision < -350) return std::copysign(0.0, value);
  if (precision < 0) {
    const double power = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / power) * power;
  }
  char buffer[1024];  // correctly rounded decimal and back, as CPython does it
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

Value round_integer(Integer value, int64_t precision) {
  if (precision >= 0) return Value::of_integer(value);
  if (value > Integer(1) << 125 || value < -(Integer(1) << 125)) fail("an integer is too large to round");
  Integer power = 1;
  for (int64_t i = 0; i > precision; --i)
    if (__builtin_mul_overflow(power, Integer(10), &power)) return Value::of_integer(0);
  Integer rest = value % power;
  if (rest < 0) rest += power;
  Integer low = value - rest;
  const bool up = rest * 2 > power || (rest * 2 == power && low / power % 2 != 0);
  return Value::of_integer(up ? low + power : low);
}

Value round_number(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::string method = bound.has(1) ? bound.text(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (input.is(Kind::kUndefined)) fail_undefined(input);
  if (!input.is_number()) fail_type("type " + type_name(input) + " doesn't define __round__ method");
  const int64_t precision = bound.integer(0, 0);
  if (method == "common")
    return input.is(Kind::kFloat) ? Value::of_real(round_real(input.real, precision))
                                  : round_integer(input.as_integer(), precision);
  Meter& meter = evaluator.meter();
  const Value power = apply_binary(Op::kPow, Value::of_integer(10), Value::of_integer(precision), meter);
  const Value scaled = apply_binary(Op::kMul, input, power, meter);
  Value whole = scaled;
  if (scaled.is(Kind::kFloat))
    whole = Value::of_integer(truncate(method == "ceil" ? std::ceil(scaled.real) : std::floor(scaled.real)));
  return apply_binary(Op::kDiv, whole, power, meter);
}

Value to_json_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Meter& meter = evaluator.meter();
  JsonStyle style;
  style.ensure_ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  if (bound.has(1) && !bound.get(1)->is(Kind::kNone)) {
    if (bound.get(1)->is(Kind::kString)) {
      style.indent = bound.text(1).bytes();
    } else {
      const int64_t width = std::max<int64_t>(0, bound.integer(1, 0));
      constexpr int64_t kMaxIndent = 256;
      if (width > kMaxIndent) fail("tojson's indent of " + std::to_string(width) + " is more than 256");
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
  }
  style.item_separator = Text(style.indent ? "," : ", ", false);
  style.key_separator = Text(": ", false);
  if (bound.has(2) && !bound.get(2)->is(Kind::kNone)) {
    const std::vector<Value> pair = collect(*bound.get(2), meter);
    if (pair.size() != 2 || !pair[0].is(Kind::kString) || !pair[1].is(Kind::kString))
      fail("tojson's separators must be two strings");
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  return Value::string(to_json(input, style, meter));
}

Value fall_back(Evaluator&, const Value& input, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool use = input.is(Kind::kUndefined) || (bound.truth(1, false) && !is_truthy(input));
  if (!use) return input;
  return bound.has(0) ? *bound.get(0) : Value::literal("");
}

// Filters of jinja2 that no chat template has a use for.
constexpr char kFileSize[] = "filesizeformat";
constexpr char kPretty[] = "pprint";
constexpr char kRandom[] = "random";
constexpr char kStripTags[] = "striptags";
constexpr char kUrlEncode[] = "urlencode";
constexpr char kUrlize[] = "urlize";
constexpr char kWordWrap[] = "wordwrap";
constexpr char kXmlAttr[] = "xmlattr";
template <const char* kName>
Value refuse(Evaluator&, const Value&, const Arguments&) {
  fail_unsupported(std::string("the filter '") + kName + "' is not supported in chat templates");
}

struct Row {
  std::string_view name;
  FilterFunction filter;
};

constexpr Row kFilters[] = {
    {"abs", absolute}, {"attr", filter_attr}, {"batch", filter_batch}, {"capitalize", map_text<to_capitalized>},
    {"center", center}, {"count", filter_length}, {"d", fall_back}, {"default", fall_back},
    {"dictsort", filter_dictsort}, {"e", escape}, {"escape", escape}, {kFileSize, refuse<kFileSize>},
    {"first", filter_first}, {"float", to_real}, {"forceescape", force_escape}, {"format", format},
    {"groupby", filter_groupby}, {"indent", indent}, {"int", to_integer}, {"items", filter_items},
    {"join", filter_join}, {"last", filter_last}, {"length", filter_length}, {"list", filter_list},
    {"lower", map_text<to_lower>}, {"map", filter_map}, {"max", filter_max}, {"min", filter_min},
    {kPretty, refuse<kPretty>}, {kRandom, refuse<kRandom>}, {"reject", filter_reject},
    {"rejectattr", filter_rejectattr}, {"replace", replace}, {"reverse", filter_reverse}, {"round", round_number},
    {"safe", mark_safe}, {"select", filter_select}, {"selectattr", filter_selectattr}, {"slice", filter_slice},
    {"sort", filter_sort}, {"string", to_string}, {kStripTags, refuse<kStripTags>}, {"sum", filter_sum},
    {"title", title}, {"tojson", to_json_filter}, {"trim", trim}, {"truncate", truncate_text},
    {"unique", filter_unique}, {"upper", map_text<to_upper>}, {kUrlEncode, refuse<kUrlEncode>},
    {kUrlize, refuse<kUrlize>}, {"wordcount", word_count}, {kWordWrap, refuse<kWordWrap>},
    {kXmlAttr, refuse<kXmlAttr>},
};

}  // namespace

FilterFunction find_filter(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kFilters), std::end(kFilters), name, [](const Row& row, std::string_view value) {
        return row.name < value;
      });
  return found != std::end(kFilters) && found->name == name ? found->filter : nullptr;
}

Integer truncate(double real) {
  if (!std::isfinite(real)) fail(std::isnan(real) ? "cannot convert float NaN to integer"
                                                  : "cannot convert float infinity to integer");
  if (std::fabs(real) > 1.6e38) fail("the float " + real_to_string(real) + " does not fit a 128-bit integer");
  return static_cast<Integer>(real);
}

bool parse_integer(std::string_view text, int base, Integer* out) {
  if (base != 0 && (base < 2 || base > 36)) return false;
  const Text stripped = strip_text(Text(std::string(text), false), nullptr, true, true);
  std::string_view rest = stripped.bytes();
  const bool negative = !rest.empty() && rest.front() == '-';
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) rest.remove_prefix(1);
  if (rest.size() > 1 && rest[0] == '0') {
    const char letter = static_cast<char>(rest[1] | 0x20);
    const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      rest.remove_prefix(2);
      if (!rest.empty() && rest.front() == '_') rest.remove_prefix(1);
      base = prefix;
    }
  }
  if (base == 0) base = 10;
  Integer value = 0;
  bool digit_before = false;
  for (size_t at = 0; at < rest.size();) {
    size_t length = 0;
    const char32_t code = decode_utf8(rest, at, &length);
    at += length;
    if (code == '_' && digit_before && at < rest.size()) {
      digit_before = false;
      continue;
    }
    const char32_t letter = code | 0x20;
    const int digit = is_decimal(code) ? decimal_value(code)
                      : code < 0x80 && letter >= 'a' && letter <= 'z' ? static_cast<int>(letter - 'a') + 10
                                                                      : 36;
    if (digit >= base) return false;
    digit_before = true;
    if (__builtin_mul_overflow(value, Integer(base), &value) || __builtin_add_overflow(value, Integer(digit), &value))
      fail("the integer " + std::string(text) + " does not fit 128 bits");
  }
  *out = negative ? -value : value;
  return digit_before;
}

bool parse_real(std::string_view text, double* out) {
  const Text stripped = strip_text(Text(std::string(text), false), nullptr, true, true);
  std::string plain;
  const std::string& bytes = stripped.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto digit = [&](size_t k) { return k < bytes.size() && bytes[k] >= '0' && bytes[k] <= '9'; };
    if (bytes[i] == '_') {
      if (i == 0 || !digit(i - 1) || !digit(i + 1)) return false;
      continue;
    }
    plain.push_back(bytes[i]);
  }
  // strtod also takes hexadecimal and "nan(…)", which Python does not.
  if (plain.empty() || plain.find_first_of("xX(pP") != std::string::npos) return false;
  char* end = nullptr;
  *out = std::strtod(plain.c_str(), &end);
  return end == plain.c_str() + plain.size();
}

}  // namespace slipstream::jinja
