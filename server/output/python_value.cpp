// Python literals to JSON text; see python_json in value_text.h. Nothing is evaluated: names other than the three constants are
// refused, and nesting is bounded.
#include <cctype>

#include "engine/base/utf8.h"
#include "server/json_text.h"
#include "server/output/value_text.h"

namespace slipstream::output {
namespace {

constexpr int kDepth = 32;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::string> whole() {
    std::string out;
    if (!value(&out, 0)) return std::nullopt;
    skip_space();
    if (at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  bool value(std::string* out, int depth) {
    skip_space();
    if (at_ == text_.size() || depth > kDepth) return false;
    const char c = text_[at_];
    if (c == '[') return list(out, ']', depth);
    if (c == '(') return list(out, ')', depth);
    if (c == '{') return dict(out, depth);
    if (c == '"' || c == '\'') return string(out);
    if (c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9')) return number(out);
    return constant(out);
  }

  bool list(std::string* out, char close, int depth) {
    ++at_;
    out->push_back('[');
    bool first = true;
    while (!ends(close)) {
      if (!first) *out += ", ";
      first = false;
      if (!value(out, depth + 1) || !comma_or(close)) return false;
    }
    out->push_back(']');
    return at_++ < text_.size();
  }

  bool dict(std::string* out, int depth) {
    ++at_;
    out->push_back('{');
    bool first = true;
    while (!ends('}')) {
      if (!first) *out += ", ";
      first = false;
      skip_space();
      if (at_ == text_.size() || (text_[at_] != '"' && text_[at_] != '\'') || !string(out)) return false;
      if (!ends(':')) return false;
      ++at_;
      *out += ": ";
      if (!value(out, depth + 1) || !comma_or('}')) return false;
    }
    out->push_back('}');
    return at_++ < text_.size();
  }

  bool string(std::string* out) {
    const char quote = text_[at_];
    const std::string three(3, quote);
    const bool triple = text_.substr(at_).starts_with(three);
    at_ += triple ? 3 : 1;
    std::string decoded;
    while (at_ < text_.size()) {
      if (triple ? text_.substr(at_).starts_with(three) : text_[at_] == quote) {
        at_ += triple ? 3 : 1;
        json_text::append_string(*out, decoded);
        return true;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size())
        escape(&decoded);
      else
        decoded.push_back(text_[at_++]);
    }
    return false;
  }

  void escape(std::string* out) {
    const char c = text_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'n': out->push_back('\n'); return;
      case 't': out->push_back('\t'); return;
      case 'r': out->push_back('\r'); return;
      case 'b': out->push_back('\b'); return;
      case 'f': out->push_back('\f'); return;
      case '\n': return;  // a continued line
      case '\\':
      case '\'':
      case '"': out->push_back(c); return;
      case 'x': return code(2, c, out);
      case 'u': return code(4, c, out);
      case 'U': return code(8, c, out);
      default: out->push_back('\\'); out->push_back(c);  // as Python keeps an unknown escape
    }
  }

  void code(size_t digits, char letter, std::string* out) {
    uint32_t value = 0;
    size_t read = 0;
    while (read < digits && at_ + read < text_.size() && std::isxdigit(static_cast<unsigned char>(text_[at_ + read]))) {
      const char c = text_[at_ + read++];
      value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (read != digits || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
      out->push_back('\\');
      out->push_back(letter);
      return;
    }
    at_ += digits;
    append_utf8(*out, value);
  }

  bool number(std::string* out) {
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '.' || text_[end] == '_' ||
                                  text_[end] == '-' || text_[end] == '+'))
      ++end;
    // JSON has no plus, no underscores, and digits on both sides of the point
    std::string digits;
    for (const char c : text_.substr(at_, end - at_)) {
      if (c == '.' && (digits.empty() || digits == "-")) digits.push_back('0');
      if (c != '_' && !(c == '+' && digits.empty())) digits.push_back(c);
    }
    if (digits.ends_with('.')) digits.push_back('0');
    if (digits.empty() || !is_json(digits)) return false;
    *out += digits;
    at_ = end;
    return true;
  }

  bool constant(std::string* out) {
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"}, {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (const auto& [python, json] : kNames) {
      if (!text_.substr(at_).starts_with(python)) continue;
      const size_t end = at_ + python.size();
      if (end < text_.size() && is_name_char(text_[end])) continue;
      *out += json;
      at_ = end;
      return true;
    }
    return false;
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool ends(char close) {
    skip_space();
    return at_ < text_.size() && text_[at_] == close;
  }
  /// After a value: a comma is consumed, `close` is left for the caller.
  bool comma_or(char close) {
    if (ends(close)) return true;
    if (at_ == text_.size() || text_[at_] != ',') return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> python_json(std::string_view literal) { return Reader(literal).whole(); }

}  // namespace slipstream::output
