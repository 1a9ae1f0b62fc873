// The % operator, str.format and format specifications. Must never know syntax or scopes.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/text/template_call.h"
#include "engine/text/template_format.h"

namespace slipstream::jinja {

namespace {

constexpr int64_t kMaxPrecision = 512;  // of floats; longer ones serve nobody

struct Layout {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '='; 0: by type
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char grouping = 0;
  char type = 0;
};

std::string print_real(double value, char type, int64_t precision, bool alternate) {
  if (precision < 0) precision = 6;
  if (precision > kMaxPrecision) fail("a precision of " + std::to_string(precision) + " is too long to print");
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + type;
  char buffer[1024];
  const int count = std::snprintf(buffer, sizeof buffer, format.c_str(), static_cast<int>(precision), value);
  return std::string(buffer, static_cast<size_t>(std::min<int>(count, sizeof buffer - 1)));
}

std::string group_digits(const std::string& digits, char separator, size_t size) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

// Sign, prefix and digits set into the width.
std::string lay_out_number(bool negative, const std::string& prefix, std::string digits, const Layout& layout) {
  std::string sign = negative ? "-" : layout.sign == '+' ? "+" : layout.sign == ' ' ? " " : "";
  const int64_t used = static_cast<int64_t>(sign.size() + prefix.size() + digits.size());
  const int64_t missing = std::max<int64_t>(0, layout.width - used);
  std::string padding;
  for (int64_t i = 0; i < missing; ++i) padding += layout.fill;
  switch (layout.align == 0 ? '>' : layout.align) {
    case '<': return sign + prefix + digits + padding;
    case '=': return sign + prefix + padding + digits;
    case '^': {
      const size_t left = static_cast<size_t>(missing / 2) * layout.fill.size();
      return padding.substr(0, left) + sign + prefix + digits + padding.substr(left);
    }
    default: return padding + sign + prefix + digits;
  }
}

Text lay_out_text(const Text& text, const Layout& layout) {
  const int64_t length = text.length();
  const Text shown =
      layout.precision >= 0 && layout.precision < length ? text.slice(0, text.offset_of(layout.precision)) : text;
  const int64_t missing = std::max<int64_t>(0, layout.width - shown.length());
  const int64_t left = layout.align == '>' ? missing : layout.align == '^' ? missing / 2 : 0;
  TextBuilder builder;
  for (int64_t i = 0; i < left; ++i) builder.append(layout.fill, false);
  builder.append(shown);
  for (int64_t i = left; i < missing; ++i) builder.append(layout.fill, false);
  return builder.take();
}

std::string upper_ascii(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

std::string format_integer(Integer value, const Layout& layout) {
  const char type = layout.type == 0 ? 'd' : layout.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  std::string digits = integer_to_string(value, base);
  const bool negative = digits.front() == '-';
  if (negative) digits.erase(0, 1);
  if (type == 'X') digits = upper_ascii(digits);
  if (layout.grouping != 0) digits = group_digits(digits, layout.grouping, base == 10 ? 3 : 4);
  const std::string prefix = layout.alternate && base != 10 ? std::string("0") + type : "";
  return lay_out_number(negative, prefix, digits, layout);
}

std::string format_real(double value, const Layout& layout) {
  std::string digits;
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  char type = layout.type;
  if (std::isnan(value) || std::isinf(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (type == 'F' || type == 'E' || type == 'G') digits = upper_ascii(digits);
    if (type == '%') digits += "%";
  } else if (type == 0) {
    digits = layout.precision < 0 ? real_to_string(magnitude) : print_real(magnitude, 'g', std::max<int64_t>(1, layout.precision), false);
    if (layout.precision >= 0 && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  } else if (type == '%') {
    digits = print_real(magnitude * 100, 'f', layout.precision, layout.alternate) + "%";
  } else {
    digits = print_real(magnitude, type == 'n' ? 'g' : type, layout.precision, layout.alternate);
  }
  if (layout.grouping != 0) digits = group_digits(digits, layout.grouping, 3);
  return lay_out_number(negative, "", digits, layout);
}

int64_t read_number(std::string_view text, size_t* at, const Meter& meter) {
  int64_t number = 0;
  while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
    number = number * 10 + (text[(*at)++] - '0');
    meter.check_size(static_cast<uint64_t>(number));
  }
  return number;
}

Layout read_layout(std::string_view text, const Meter& meter) {
  Layout layout;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    size_t first = 0;
    decode_utf8(text, 0, &first);
    if (first < text.size() && is_align(text[first])) {
      layout.fill = std::string(text.substr(0, first));
      layout.align = text[first];
      at = first + 1;
    } else if (is_align(text[0])) {
      layout.align = text[0];
      at = 1;
    }
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) layout.sign = text[at++];
  if (at < text.size() && text[at] == '#') layout.alternate = true, ++at;
  if (at < text.size() && text[at] == '0') {
    if (layout.align == 0) layout.align = '=', layout.fill = "0";
    ++at;
  }
  layout.width = read_number(text, &at, meter);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) layout.grouping = text[at++];
  if (at < text.size() && text[at] == '.') {
    const size_t digits = ++at;
    layout.precision = read_number(text, &at, meter);
    if (at == digits) fail("Format specifier missing precision");
  }
  if (at < text.size()) layout.type = text[at++];
  if (at != text.size()) fail("Invalid format specifier '" + std::string(text) + "'");
  return layout;
}

// One conversion of the % operator.
class Percent {
 public:
  Percent(const Value& format, const Value& arguments, Meter& meter)
      : format_(format), arguments_(arguments), meter_(meter) {}

  Value run() {
    const Text& text = format_.text();
    const std::string_view bytes = text.bytes();
    meter_.spend_bytes(bytes.size());
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t mark = std::min(bytes.find('%', at), bytes.size());
      out_.append(text, at, mark);
      meter_.check_size(out_.size());
      at = mark;
      if (at < bytes.size()) convert(bytes, &at);
    }
    const bool mapping = arguments_.is(Kind::kDict);
    const bool left_over = arguments_.is(Kind::kTuple) ? next_ < arguments_.items().size() : next_ == 0 && !mapping;
    if (left_over && !mapping && !(arguments_.is(Kind::kList) && keyed_))
      fail_type("not all arguments converted during string formatting");
    return Value::string(out_.take(), format_.flag);
  }

 private:
  Value take() {
    if (arguments_.is(Kind::kTuple)) {
      if (next_ >= arguments_.items().size()) fail_type("not enough arguments for format string");
      return arguments_.items()[next_++];
    }
    if (next_++ > 0) fail_type("not enough arguments for format string");
    return arguments_;
  }

  int64_t star_or_number(std::string_view bytes, size_t* at) {
    if (*at < bytes.size() && bytes[*at] == '*') {
      ++*at;
      const Value value = take();
      if (!value.is_integral()) fail_type("* wants int");
      const Integer number = value.as_integer();
      if (number > INT64_MAX || number < -INT64_MAX) fail("a width or precision is out of range");
      meter_.check_size(static_cast<uint64_t>(number < 0 ? -number : number));
      return static_cast<int64_t>(number);
    }
    return read_number(bytes, at, meter_);
  }

  void convert(std::string_view bytes, size_t* at) {
    const size_t start = (*at)++;
    std::optional<Value> keyed;
    if (*at < bytes.size() && bytes[*at] == '(') {
      const size_t close = bytes.find(')', *at);
      if (close == std::string_view::npos) fail("incomplete format key");
      if (!arguments_.is(Kind::kDict)) fail_type("format requires a mapping");
      const Value* found = arguments_.entries().find(bytes.substr(*at + 1, close - *at - 1));
      if (found == nullptr) fail("KeyError: " + std::string(bytes.substr(*at + 1, close - *at - 1)));
      keyed = *found;
      keyed_ = true;
      *at = close + 1;
    }
    Layout layout;
    bool zero = false;
    for (; *at < bytes.size(); ++*at) {
      const char flag = bytes[*at];
      if (flag == '-') layout.align = '<';
      else if (flag == '+') layout.sign = '+';
      else if (flag == ' ') layout.sign = layout.sign == '+' ? '+' : ' ';
      else if (flag == '#') layout.alternate = true;
      else if (flag == '0') zero = true;
      else break;
    }
    layout.width = star_or_number(bytes, at);
    if (layout.width < 0) layout.align = '<', layout.width = -layout.width;
    if (*at < bytes.size() && bytes[*at] == '.') {
      ++*at;
      layout.precision = star_or_number(bytes, at);
    }
    while (*at < bytes.size() && (bytes[*at] == 'l' || bytes[*at] == 'h' || bytes[*at] == 'L')) ++*at;
    if (*at >= bytes.size()) fail("incomplete format");
    layout.type = bytes[(*at)++];
    if (layout.type == '%') return out_.append("%", false);
    if (zero && layout.align == 0) layout.align = '=', layout.fill = "0";
    put(keyed ? *keyed : take(), layout, bytes.substr(start, *at - start));
    meter_.check_size(out_.size());
  }

  void put(const Value& value, Layout layout, std::string_view shown) {
    switch (layout.type) {
      case 's':
      case 'r':
      case 'a': {
        if (layout.align != '<') layout.align = '>';
        layout.fill = " ";
        Text text = layout.type == 's' ? (format_.flag ? escape_html(value, meter_) : to_str(value, meter_))
                                       : to_repr(value, meter_);
        return out_.append(lay_out_text(text, layout));
      }
      case 'c': {
        if (value.is(Kind::kString) && value.text().length() == 1) return out_.append(lay_out_text(value.text(), layout));
        fail_type("%c requires int or char");
      }
      case 'd': case 'i': case 'u': {
        Integer number = 0;
        if (value.is(Kind::kFloat)) {
          if (!(std::fabs(value.real) < 1e37)) fail("cannot convert a float this large to integer");
          number = static_cast<Integer>(value.real);
        } else if (value.is_integral()) {
          number = value.as_integer();
        } else if (value.is(Kind::kUndefined)) {
          fail_undefined(value);
        } else {
          fail_type("%" + std::string(1, layout.type) + " format: a real number is required, not " + type_name(value));
        }
        layout.type = 'd';
        return put_integer(number, layout);
      }
      case 'x': case 'X': case 'o':
        if (!value.is_integral())
          fail_type("%" + std::string(1, layout.type) + " format: an integer is required, not " + type_name(value));
        return put_integer(value.as_integer(), layout);
      case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        if (value.is(Kind::kUndefined)) fail_undefined(value);
        if (!value.is_number()) fail_type("must be real number, not " + type_name(value));
        return out_.append(format_real(value.as_real(), layout), false);
      default: fail("unsupported format character in '" + std::string(shown) + "'");
    }
  }

  void put_integer(Integer number, Layout layout) {
    // A precision is the least number of digits.
    Layout bare = layout;
    bare.width = 0;
    bare.sign = '-';
    bare.alternate = false;
    std::string digits = format_integer(number, bare);
    if (number < 0) digits.erase(0, 1);
    if (layout.precision > static_cast<int64_t>(digits.size()))
      digits.insert(0, static_cast<size_t>(layout.precision) - digits.size(), '0');
    const std::string prefix = layout.alternate && layout.type != 'd' ? std::string("0") + layout.type : "";
    out_.append(lay_out_number(number < 0, prefix, digits, layout), false);
  }

  const Value& format_;
  const Value& arguments_;
  Meter& meter_;
  TextBuilder out_;
  size_t next_ = 0;
  bool keyed_ = false;
};

class Braces {
 public:
  Braces(const Value& format, const Arguments& arguments, const FieldLookup& look_up, Meter& meter)
      : format_(format), arguments_(arguments), look_up_(look_up), meter_(meter) {}

  Value run() {
    const Text out = expand(format_.text(), 2);
    return Value::string(out, format_.flag);
  }

 private:
  Text expand(const Text& text, int levels) {
    if (levels < 0) fail("Max string recursion exceeded");
    TextBuilder out;
    const std::string_view bytes = text.bytes();
    meter_.spend_bytes(bytes.size());
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t mark = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(text, at, mark);
      meter_.check_size(out.size());
      if (mark == bytes.size()) break;
      if (mark + 1 < bytes.size() && bytes[mark + 1] == bytes[mark]) {
        out.append(text, mark, mark + 1);
        at = mark + 2;
        continue;
      }
      if (bytes[mark] == '}') fail("Single '}' encountered in format string");
      size_t close = mark + 1;
      for (int open = 1; close < bytes.size(); ++close) {
        if (bytes[close] == '{') ++open;
        if (bytes[close] == '}' && --open == 0) break;
      }
      if (close >= bytes.size()) fail("expected '}' before end of string");
      field(text.slice(mark + 1, close), levels, &out);
      at = close + 1;
    }
    return out.take();
  }

  void field(const Text& text, int levels, TextBuilder* out) {
    const std::string_view bytes = text.bytes();
    size_t name_end = 0;
    int brackets = 0;
    while (name_end < bytes.size()) {
      const char c = bytes[name_end];
      if (c == '[') ++brackets;
      if (c == ']') --brackets;
      if (brackets == 0 && (c == ':' || c == '!')) break;
      ++name_end;
    }
    Value value = resolve(bytes.substr(0, name_end));
    size_t at = name_end;
    char conversion = 0;
    if (at < bytes.size() && bytes[at] == '!') {
      if (at + 1 >= bytes.size()) fail("end of string while looking for conversion specifier");
      conversion = bytes[at + 1];
      at += 2;
      if (at < bytes.size() && bytes[at] != ':') fail("expected ':' after conversion specifier");
    }
    Text specification;
    if (at < bytes.size()) specification = expand(text.slice(at + 1, bytes.size()), levels - 1);
    if (conversion == 'r' || conversion == 'a')
      value = Value::string(to_repr(value, meter_));
    else if (conversion == 's')
      value = Value::string(to_str(value, meter_));
    else if (conversion != 0)
      fail(std::string("Unknown conversion specifier '") + conversion + "'");
    if (format_.flag)
      out->append(escape_html(value, meter_));
    else
      out->append(format_value(value, specification.bytes(), meter_));
    meter_.check_size(out->size());
  }

  Value resolve(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, end);
    Value value;
    const bool number = !first.empty() && first.find_first_not_of("0123456789") == std::string_view::npos;
    if (first.empty() || number) {
      if (first.empty() ? numbered_ : automatic_)
        fail("cannot switch between manual field specification and automatic field numbering");
      (first.empty() ? automatic_ : numbered_) = true;
      size_t unused = 0;
      const size_t index = first.empty() ? next_++ : static_cast<size_t>(read_number(first, &unused, meter_));
      if (index >= arguments_.positional.size()) fail("Replacement index " + std::to_string(index) + " out of range");
      value = arguments_.positional[index];
    } else {
      const Value* found = arguments_.find(first);
      if (found == nullptr) fail("KeyError: '" + std::string(first) + "'");
      value = *found;
    }
    for (size_t at = end; at < path.size();) {
      if (path[at] == '.') {
        const size_t stop = std::min(path.find_first_of(".[", at + 1), path.size());
        value = look_up_(value, Value::literal(path.substr(at + 1, stop - at - 1)), true);
        at = stop;
      } else {
        const size_t stop = path.find(']', at);
        if (stop == std::string_view::npos) fail("Missing ']' in format string");
        const std::string_view key = path.substr(at + 1, stop - at - 1);
        size_t unused = 0;
        const bool index = !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
        value = look_up_(value, index ? Value::of_integer(read_number(key, &unused, meter_)) : Value::literal(key), false);
        at = stop + 1;
        if (at < path.size() && path[at] != '.' && path[at] != '[')
          fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  const Value& format_;
  const Arguments& arguments_;
  const FieldLookup& look_up_;
  Meter& meter_;
  size_t next_ = 0;
  bool automatic_ = false;
  bool numbered_ = false;
};

}  // namespace

Value format_percent(const Value& format, const Value& arguments, Meter& meter) {
  return Percent(format, arguments, meter).run();
}

Value format_braces(const Value& format, const Arguments& arguments, const FieldLookup& look_up, Meter& meter) {
  return Braces(format, arguments, look_up, meter).run();
}

Text format_value(const Value& value, std::string_view specification, Meter& meter) {
  if (specification.empty()) return to_str(value, meter);
  Layout layout = read_layout(specification, meter);
  meter.spend_bytes(static_cast<size_t>(layout.width));
  const std::string_view types = value.is(Kind::kString) ? "s" : value.is(Kind::kFloat) ? "eEfFgGn%" : "bdoxXneEfFgG%";
  if (!value.is(Kind::kString) && !value.is_number())
    fail_type("unsupported format string passed to " + type_name(value) + ".__format__");
  if (layout.type != 0 && types.find(layout.type) == std::string_view::npos)
    fail(std::string("Unknown format code '") + layout.type + "' for object of type '" + type_name(value) + "'");
  if (value.is(Kind::kString)) {
    if (layout.align == '=' && layout.fill == "0") layout.align = '<';
    if (layout.align == '=') fail("'=' alignment not allowed in string format specifier");
    if (layout.sign != '-') fail("Sign not allowed in string format specifier");
    if (layout.grouping != 0) fail("Cannot specify ',' with 's'.");
    return lay_out_text(value.text(), layout);
  }
  const bool integral = value.is_integral() && std::string_view("eEfFgG%").find(layout.type == 0 ? 'd' : layout.type) ==
                                                   std::string_view::npos;
  if (integral && layout.precision >= 0) fail("Precision not allowed in integer format specifier");
  if (layout.type == 'n' && value.is_integral()) layout.type = 'd';
  return Text(integral ? format_integer(value.as_integer(), layout) : format_real(value.as_real(), layout), false);
}

}  // namespace slipstream::jinja
