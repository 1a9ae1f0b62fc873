// str(), repr() and json.dumps. Must never know syntax or scopes.
#include "engine/text/template_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/text/template_unicode.h"
#include "kernels/check.h"

namespace slipstream::jinja {

namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_hex(std::string* out, const char* prefix, char32_t code, int digits) {
  out->append(prefix);
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) out->push_back(kHex[code >> shift & 15]);
}

class Printer {
 public:
  Printer(TextBuilder* out, Meter* meter) : out_(*out), meter_(*meter) {}

  void repr(const Value& value, int depth) {
    meter_.spend(1);
    if (depth > meter_.max_depth())
      throw Failure{Failure::What::kLimit, "a value is nested too deeply to print", 0};
    switch (value.kind) {
      case Kind::kString: return repr_string(value);
      case Kind::kList: return sequence(value.items(), "[", "]", depth);
      case Kind::kTuple: return sequence(value.items(), "(", value.items().size() == 1 ? ",)" : ")", depth);
      case Kind::kDict: return dict(value.entries(), depth);
      case Kind::kUndefined: return literal("Undefined");
      case Kind::kView: {
        literal(type_name(value) + "(");
        std::vector<Value> items = collect(value, meter_);
        sequence(items, "[", "]", depth);
        return literal(")");
      }
      case Kind::kNamespace: return names(object_as<NamespaceObject>(value), depth);
      default: return literal(scalar(value));
    }
  }

 private:
  void literal(std::string_view bytes) {
    out_.append(bytes, false);
    meter_.check_size(out_.size());
  }

  static std::string scalar(const Value& value) {
    switch (value.kind) {
      case Kind::kNone: return "None";
      case Kind::kBool: return value.flag ? "True" : "False";
      case Kind::kInt: return integer_to_string(value.integer);
      case Kind::kFloat: return real_to_string(value.real);
      case Kind::kRange: {
        const auto& range = object_as<RangeObject>(value);
        std::string text = "range(" + integer_to_string(range.start) + ", " + integer_to_string(range.stop);
        if (range.step != 1) text += ", " + integer_to_string(range.step);
        return text + ")";
      }
      default: fail("a " + type_name(value) + " object has no printable text; call it or convert it with |list first");
    }
  }

  void sequence(const std::vector<Value>& items, const char* open, const char* close, int depth) {
    literal(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) literal(", ");
      repr(items[i], depth + 1);
    }
    literal(close);
  }

  void dict(const DictObject& entries, int depth) {
    literal("{");
    bool first = true;
    for (const auto& [key, value] : entries.entries) {
      if (!first) literal(", ");
      first = false;
      repr(key, depth + 1);
      literal(": ");
      repr(value, depth + 1);
    }
    literal("}");
  }

  void names(const NamespaceObject& space, int depth) {
    literal("<Namespace {");
    bool first = true;
    for (const auto& [name, value] : space.attributes) {
      if (!first) literal(", ");
      first = false;
      repr(Value::literal(name), depth + 1);
      literal(": ");
      repr(value, depth + 1);
    }
    literal("}>");
  }

  void repr_string(const Value& value) {
    const Text& text = value.text();
    const std::string_view bytes = text.bytes();
    meter_.spend_bytes(bytes.size());
    const char quote =
        bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos ? '"' : '\'';
    if (value.flag) literal("Markup(");
    literal(std::string_view(&quote, 1));
    std::string piece;
    size_t at = 0;
    for (const Run& run : text.runs()) {
      piece.clear();
      while (at < run.end) {
        size_t length = 0;
        const char32_t code = decode_utf8(bytes, at, &length);
        if (code == static_cast<char32_t>(quote) || code == '\\') {
          piece.push_back('\\');
          piece.push_back(static_cast<char>(code));
        } else if (code == '\n') {
          piece += "\\n";
        } else if (code == '\r') {
          piece += "\\r";
        } else if (code == '\t') {
          piece += "\\t";
        } else if (is_printable(code)) {
          piece.append(bytes.substr(at, length));
        } else if (code < 0x100) {
          append_hex(&piece, "\\x", code, 2);
        } else if (code < 0x10000) {
          append_hex(&piece, "\\u", code, 4);
        } else {
          append_hex(&piece, "\\U", code, 8);
        }
        at += length;
      }
      out_.append(piece, run.user);
    }
    literal(std::string_view(&quote, 1));
    if (value.flag) literal(")");
  }

  TextBuilder& out_;
  Meter& meter_;
};

class JsonWriter {
 public:
  JsonWriter(TextBuilder* out, const JsonStyle& style, Meter* meter) : out_(*out), style_(style), meter_(*meter) {}

  void write(const Value& value, int depth) {
    meter_.spend(1);
    switch (value.kind) {
      case Kind::kNone: return literal("null");
      case Kind::kBool: return literal(value.flag ? "true" : "false");
      case Kind::kInt: return literal(integer_to_string(value.integer));
      case Kind::kFloat: return literal(real(value.real));
      case Kind::kString: return string(value.text());
      case Kind::kList:
      case Kind::kTuple: return list(value.items(), depth);
      case Kind::kDict: return dict(value.entries(), depth);
      default: fail_type("Object of type " + type_name(value) + " is not JSON serializable");
    }
  }

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return real_to_string(value);
  }

  void literal(std::string_view bytes) {
    out_.append(bytes, false);
    meter_.check_size(out_.size());
  }

  void new_line(int depth) {
    if (!style_.indent) return;
    literal("\n");
    for (int i = 0; i < depth; ++i) literal(*style_.indent);
  }

  void list(const std::vector<Value>& items, int depth) {
    if (items.empty()) return literal("[]");
    literal("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(depth + 1);
      write(items[i], depth + 1);
    }
    new_line(depth);
    literal("]");
  }

  void dict(const DictObject& dict_object, int depth) {
    if (dict_object.entries.empty()) return literal("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict_object.entries) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, meter_); });
    literal("{");
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line(depth + 1);
      key(entry->first);
      out_.append(style_.key_separator);
      write(entry->second, depth + 1);
    }
    new_line(depth);
    literal("}");
  }

  void key(const Value& value) {
    switch (value.kind) {
      case Kind::kString: return string(value.text());
      case Kind::kNone: return literal("\"null\"");
      case Kind::kBool: return literal(value.flag ? "\"true\"" : "\"false\"");
      case Kind::kInt: return literal("\"" + integer_to_string(value.integer) + "\"");
      case Kind::kFloat: return literal("\"" + real(value.real) + "\"");
      default:
        fail_type("keys must be str, int, float, bool or None, not " + type_name(value));
    }
  }

  void string(const Text& text) {
    const std::string_view bytes = text.bytes();
    meter_.spend_bytes(bytes.size());
    literal("\"");
    std::string piece;
    size_t at = 0;
    for (const Run& run : text.runs()) {
      piece.clear();
      while (at < run.end) {
        const unsigned char c = static_cast<unsigned char>(bytes[at]);
        if (c >= 0x80 && style_.ensure_ascii) {
          size_t length = 0;
          char32_t code = decode_utf8(bytes, at, &length);
          if (code >= 0x10000) {
            code -= 0x10000;
            append_hex(&piece, "\\u", 0xD800 + (code >> 10), 4);
            append_hex(&piece, "\\u", 0xDC00 + (code & 0x3FF), 4);
          } else {
            append_hex(&piece, "\\u", code, 4);
          }
          at += length;
          continue;
        }
        switch (c) {
          case '"': piece += "\\\""; break;
          case '\\': piece += "\\\\"; break;
          case '\n': piece += "\\n"; break;
          case '\r': piece += "\\r"; break;
          case '\t': piece += "\\t"; break;
          case '\b': piece += "\\b"; break;
          case '\f': piece += "\\f"; break;
          default:
            if (c < 0x20)
              append_hex(&piece, "\\u", c, 4);
            else
              piece.push_back(static_cast<char>(c));
        }
        ++at;
      }
      out_.append(piece, run.user);
    }
    literal("\"");
  }

  TextBuilder& out_;
  const JsonStyle& style_;
  Meter& meter_;
};

}  // namespace

std::string integer_to_string(Integer value, int base) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  unsigned __int128 rest = negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  while (rest != 0) {
    digits.push_back(kHex[static_cast<int>(rest % static_cast<unsigned>(base))]);
    rest /= static_cast<unsigned>(base);
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string real_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t mark = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, mark))
    if (c != '.') digits.push_back(c);
  int exponent = 0;
  const std::string_view power = text.substr(mark + 1);
  std::from_chars(power.data() + (power.front() == '+'), power.data() + power.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.front();
    if (count > 1) out += "." + digits.substr(1);
    const int magnitude = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude < 10 ? "0" : "") + std::to_string(magnitude);
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." + digits.substr(static_cast<size_t>(exponent) + 1);
}

Text to_str(const Value& value, Meter& meter) {
  if (value.is(Kind::kString)) return value.text();
  if (value.is(Kind::kUndefined)) return Text();
  return to_repr(value, meter);
}

Text to_repr(const Value& value, Meter& meter) {
  TextBuilder builder;
  Printer(&builder, &meter).repr(value, 0);
  return builder.take();
}

Text to_json(const Value& value, const JsonStyle& style, Meter& meter) {
  TextBuilder builder;
  JsonWriter(&builder, style, &meter).write(value, 0);
  return builder.take();
}

Text escape_html(const Value& value, Meter& meter) {
  Text text = to_str(value, meter);
  if (value.is(Kind::kString) && value.flag) return text;
  const std::string_view bytes = text.bytes();
  meter.spend_bytes(bytes.size());
  TextBuilder builder;
  std::string piece;
  size_t at = 0;
  for (const Run& run : text.runs()) {
    piece.clear();
    for (; at < run.end; ++at) {
      switch (bytes[at]) {
        case '&': piece += "&amp;"; break;
        case '<': piece += "&lt;"; break;
        case '>': piece += "&gt;"; break;
        case '\'': piece += "&#39;"; break;
        case '"': piece += "&#34;"; break;
        default: piece.push_back(bytes[at]);
      }
    }
    builder.append(piece, run.user);
  }
  return builder.take();
}

}  // namespace slipstream::jinja
