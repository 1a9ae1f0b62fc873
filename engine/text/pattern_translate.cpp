// From Oniguruma's (Ruby syntax, Unicode) to PCRE2's dialect. Only what differs is touched; what cannot be expressed
// is refused by name.
#include <array>
#include <string>
#include <string_view>

#include "engine/text/pattern.h"

namespace slipstream {
namespace {

// Class contents. White_Space and word as Oniguruma defines them (doc/RE of the library, Unicode case).
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

Error unsupported_construct(std::string_view construct, std::string_view expression) {
  return unsupported("pre-tokenizer pattern \"" + std::string(expression.substr(0, 80)) + "\": " +
                     std::string(construct) + " is not supported");
}

class Translator {
 public:
  explicit Translator(std::string_view expression) : in_(expression) {}

  Result<std::string> run() {
    // The same matches without trying every start inside a run that does not reach the end (quadratic otherwise).
    if (in_ == R"(\s+$)") return "(?<![" + std::string(kSpace) + "])[" + std::string(kSpace) + "]+$";
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        SLIP_RETURN_IF_ERROR(escape());
      } else if (in_class_) {
        SLIP_RETURN_IF_ERROR(class_character());
      } else {
        if (c == '[') open_class();
        else put(1);
      }
    }
    return std::move(out_);
  }

 private:
  void put(size_t count) {
    out_.append(in_.substr(at_, count));
    at_ += count;
  }

  void open_class() {
    in_class_ = true;
    put(1);
    if (at_ < in_.size() && in_[at_] == '^') put(1);
    if (at_ < in_.size() && in_[at_] == ']') {  // a bracket in first place is literal in both
      out_ += "\\]";
      ++at_;
    }
  }

  Status class_character() {
    const char c = in_[at_];
    if (c == ']') {
      in_class_ = false;
    } else if (c == '[') {
      const size_t close = in_.find(":]", at_);
      if (at_ + 1 >= in_.size() || in_[at_ + 1] != ':' || close == std::string_view::npos)
        return unsupported_construct("a class inside a class", in_);
      put(close + 2 - at_);
      return Ok{};
    } else if (c == '&' && at_ + 1 < in_.size() && in_[at_ + 1] == '&') {
      return unsupported_construct("the class intersection &&", in_);
    }
    put(1);
    return Ok{};
  }

  Status escape() {
    if (at_ + 1 >= in_.size()) return corrupt("pre-tokenizer pattern ends with a backslash");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's': return put_class(kSpace, false);
      case 'w': return put_class(kWord, false);
      case 'S': return put_class(kSpace, true);
      case 'W': return put_class(kWord, true);
      case 'h':  // a hexadecimal digit there, horizontal space here
        return put_class("0-9a-fA-F", false);
      case 'u': {
        for (size_t i = 2; i < 6; ++i)
          if (at_ + i >= in_.size() || !is_hex(in_[at_ + i]))
            return corrupt("pre-tokenizer pattern: \\u needs four hexadecimal digits");
        out_ += "\\x{" + std::string(in_.substr(at_ + 2, 4)) + "}";
        at_ += 6;
        return Ok{};
      }
      case 'p':
      case 'P': return property();
      case 'H':
      case 'X':
      case 'R':
      case 'y':
      case 'Y':
      case 'g':
      case 'k':
      case 'O': return unsupported_construct(std::string("\\") + c, in_);
      default: put(2); return Ok{};
    }
  }

  /// In a class a negated set cannot be spliced; PCRE2's own \S and \W differ in a handful of characters, so refuse
  /// only \W and keep \S, whose single difference is U+180E.
  Status put_class(std::string_view content, bool negated) {
    const char letter = in_[at_ + 1];
    at_ += 2;
    if (!in_class_) {
      out_ += (negated ? "[^" : "[") + std::string(content) + "]";
    } else if (!negated) {
      out_ += content;
    } else if (letter == 'S') {
      out_ += "\\S";
    } else {
      return unsupported_construct("\\W inside a class", in_);
    }
    return Ok{};
  }

  Status property() {
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{') return unsupported_construct("\\p without braces", in_);
    const size_t close = in_.find('}', at_);
    if (close == std::string_view::npos) return corrupt("pre-tokenizer pattern: \\p{ is not closed");
    const std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    static constexpr std::array<std::string_view, 12> kScripts = {
        "Han", "Hiragana", "Katakana", "Hangul", "Latin", "Greek", "Cyrillic", "Arabic", "Hebrew", "Thai", "Bopomofo",
        "Devanagari"};
    for (std::string_view script : kScripts) {
      if (name != script) continue;
      out_ += std::string("\\") + in_[at_ + 1] + "{sc:" + std::string(name) + "}";
      at_ = close + 1;
      return Ok{};
    }
    put(close + 1 - at_);
    return Ok{};
  }

  std::string_view in_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> translate_expression(std::string_view expression) { return Translator(expression).run(); }

std::string quote_expression(std::string_view literal) {
  std::string out;
  for (char c : literal) {
    if (static_cast<uint8_t>(c) < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
        c > ' ')
      out += '\\';
    out += c;
  }
  return out;
}

}  // namespace slipstream
