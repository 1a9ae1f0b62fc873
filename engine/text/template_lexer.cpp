// The lexer of the template language. Must never know the grammar.
#include "engine/text/template_lexer.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "engine/text/template_unicode.h"

namespace slipstream::jinja {

namespace {

constexpr std::array<std::string_view, 25> kOperators = {  // longer ones first
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=",
    ".",  ":",  "|",  ",",
};

// Line ends become \n; one at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize(source)), rest_(text_) {}

  std::vector<Token> run() {
    while (at_ < rest_.size()) root();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string message) const { throw Failure{Failure::What::kError, std::move(message), line_}; }

  void push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  bool at(std::string_view piece) const { return rest_.substr(at_, piece.size()) == piece; }
  char here() const { return at_ < rest_.size() ? rest_[at_] : '\0'; }

  void advance(size_t to) {
    line_ += static_cast<int>(std::count(rest_.begin() + static_cast<ptrdiff_t>(at_),
                                         rest_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    if (to > at_) line_starting_ = rest_[to - 1] == '\n';
    at_ = to;
  }

  size_t skip_space(size_t from) const {
    while (from < rest_.size()) {
      size_t length = 0;
      if (!is_space(decode_utf8(rest_, from, &length))) break;
      from += length;
    }
    return from;
  }

  // Template data up to the next tag, then the tag.
  void root() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = rest_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= rest_.size()) {
        push_data(at_, rest_.size());
        advance(rest_.size());
        return;
      }
      const char next = rest_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char kind = rest_[tag + 1];
    const char sign = tag + 2 < rest_.size() ? rest_[tag + 2] : '\0';
    const size_t end = data_end(at_, tag, sign, kind == '{');
    push_data(at_, end);
    advance(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') return comment();
    if (kind == '{') {
      push(TokenKind::kVariableBegin, "{{");
      return expression(false);
    }
    if (raw_follows()) return raw();
    push(TokenKind::kBlockBegin, "{%");
    expression(true);
  }

  void push_data(size_t from, size_t to) {
    if (to > from) push(TokenKind::kData, std::string(rest_.substr(from, to - from)));
  }

  // The end of the data before a tag, after whitespace control.
  size_t data_end(size_t from, size_t tag, char sign, bool variable) const {
    if (sign == '-') {
      size_t end = from;
      for (size_t i = from; i < tag;) {
        size_t length = 0;
        const bool space = is_space(decode_utf8(rest_, i, &length));
        i += length;
        if (!space) end = i;
      }
      return end;
    }
    if (sign == '+' || variable) return tag;
    const size_t newline = rest_.substr(from, tag - from).rfind('\n');
    const size_t start = newline == std::string_view::npos ? from : from + newline + 1;
    if (start == from && !line_starting_) return tag;
    return skip_space(start) >= tag ? start : tag;
  }

  // A tag that opens at the very end of the source and holds nothing is nothing, as in jinja2.
  void comment() {
    if (at_ >= rest_.size()) return;
    const size_t close = rest_.find("#}", at_);
    if (close == std::string_view::npos) error("a comment is not closed: '#}' is missing");
    end_tag(close, close > at_ ? rest_[close - 1] : '\0');
  }

  // Consumes a tag's end at `close` ("%}" or "#}") by the sign before it.
  void end_tag(size_t close, char sign) {
    size_t end = close + 2;
    if (sign == '-')
      end = skip_space(end);
    else if (sign != '+' && end < rest_.size() && rest_[end] == '\n')
      ++end;
    advance(end);
  }

  bool raw_follows() const {
    const size_t name = skip_space(at_);
    if (rest_.substr(name, 3) != "raw") return false;
    const size_t end = skip_space(name + 3);
    return rest_.substr(end, 2) == "%}" || rest_.substr(end, 3) == "-%}";
  }

  void raw() {
    size_t begin = skip_space(skip_space(at_) + 3);
    const bool strip = rest_[begin] == '-';
    begin += strip ? 3 : 2;
    if (strip) begin = skip_space(begin);
    advance(begin);
    if (at_ >= rest_.size()) return;
    for (size_t tag = at_;; ++tag) {
      tag = rest_.find("{%", tag);
      if (tag == std::string_view::npos) error("a raw block is not closed: '{% endraw %}' is missing");
      const char sign = tag + 2 < rest_.size() ? rest_[tag + 2] : '\0';
      size_t name = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      name = skip_space(name);
      if (rest_.substr(name, 6) != "endraw") continue;
      size_t close = skip_space(name + 6);
      const char end_sign = close < rest_.size() ? rest_[close] : '\0';
      if (end_sign == '-' || end_sign == '+') ++close;
      if (rest_.substr(close, 2) != "%}") continue;
      push_data(at_, data_end(at_, tag, sign, false));
      return end_tag(close, end_sign);
    }
  }

  // Tokens up to the end of a {% block %} or {{ variable }}.
  void expression(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    std::string open;  // the closing brackets that are due
    for (;;) {
      if (at_ >= rest_.size()) error(std::string("a tag is not closed: '") + std::string(end) + "' is missing");
      if (open.empty()) {
        const bool signed_end = (here() == '-' || (block && here() == '+')) && rest_.substr(at_ + 1, 2) == end;
        if (signed_end || at(end)) {
          const char sign = signed_end ? here() : '\0';
          const size_t close = at_ + (signed_end ? 1 : 0);
          push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, std::string(end));
          if (block) return end_tag(close, sign);
          return advance(sign == '-' ? skip_space(close + 2) : close + 2);
        }
      }
      size_t length = 0;
      const char32_t code = decode_utf8(rest_, at_, &length);
      if (is_space(code)) {
        advance(skip_space(at_));
      } else if (code >= '0' && code <= '9') {
        number();
      } else if (is_word(code)) {
        name();
      } else if (code == '\'' || code == '"') {
        string(static_cast<char>(code));
      } else {
        operation(&open);
      }
    }
  }

  void name() {
    size_t end = at_;
    while (end < rest_.size()) {
      size_t length = 0;
      const char32_t code = decode_utf8(rest_, end, &length);
      if (!is_word(code)) break;
      end += length;
    }
    push(TokenKind::kName, std::string(rest_.substr(at_, end - at_)));
    advance(end);
  }

  // Digits with single underscores between them.
  size_t digits(size_t from, std::string_view allowed) const {
    size_t end = from;
    while (end < rest_.size()) {
      if (allowed.find(rest_[end]) != std::string_view::npos) {
        ++end;
      } else if (rest_[end] == '_' && end > from && end + 1 < rest_.size() &&
                 allowed.find(rest_[end + 1]) != std::string_view::npos) {
        end += 2;
      } else {
        break;
      }
    }
    return end;
  }

  void number() {
    constexpr std::string_view kDecimal = "0123456789";
    const bool after_dot = at_ > 0 && rest_[at_ - 1] == '.';
    size_t end = digits(at_, kDecimal);
    bool real = false;
    if (!after_dot) {
      size_t tail = end;
      if (tail + 1 < rest_.size() && rest_[tail] == '.' && kDecimal.find(rest_[tail + 1]) != std::string_view::npos) {
        tail = digits(tail + 1, kDecimal);
        real = true;
      }
      if (tail < rest_.size() && (rest_[tail] == 'e' || rest_[tail] == 'E')) {
        size_t power = tail + 1;
        if (power < rest_.size() && (rest_[power] == '+' || rest_[power] == '-')) ++power;
        if (power < rest_.size() && kDecimal.find(rest_[power]) != std::string_view::npos) {
          tail = digits(power, kDecimal);
          real = true;
        }
      }
      if (real) end = tail;
    }
    if (real) return push_real(end);
    int base = 10;
    size_t start = at_;
    if (here() == '0' && at_ + 1 < rest_.size()) {
      const char letter = static_cast<char>(rest_[at_ + 1] | 0x20);
      const std::string_view allowed = letter == 'x'   ? "0123456789abcdefABCDEF"
                                       : letter == 'o' ? "01234567"
                                       : letter == 'b' ? "01"
                                                       : "";
      size_t first = at_ + 2;
      if (!allowed.empty() && first < rest_.size() && rest_[first] == '_') ++first;
      if (!allowed.empty() && digits(first, allowed) > first) {
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
        start = first;
        end = digits(first, allowed);
      } else {
        end = digits(at_, "0");  // the grammar knows no leading zeros
      }
    }
    push_integer(start, end, base);
  }

  void push_real(size_t end) {
    std::string text(rest_.substr(at_, end - at_));
    std::erase(text, '_');
    push(TokenKind::kFloat, text);
    tokens_.back().real = std::strtod(text.c_str(), nullptr);
    advance(end);
  }

  void push_integer(size_t start, size_t end, int base) {
    Integer value = 0;
    for (size_t i = start; i < end; ++i) {
      if (rest_[i] == '_') continue;
      const char c = rest_[i];
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(value, Integer(base), &value) || __builtin_add_overflow(value, Integer(digit), &value))
        error("the integer " + std::string(rest_.substr(at_, end - at_)) + " does not fit 128 bits");
    }
    push(TokenKind::kInteger, std::string(rest_.substr(at_, end - at_)));
    tokens_.back().integer = value;
    advance(end);
  }

  void string(char quote) {
    size_t close = at_ + 1;
    while (close < rest_.size() && rest_[close] != quote) close += rest_[close] == '\\' ? 2 : 1;
    if (close >= rest_.size()) error("a string is not closed");
    push(TokenKind::kString, unescape(rest_.substr(at_ + 1, close - at_ - 1)));
    advance(close + 1);
  }

  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out.push_back(text[i]);
        continue;
      }
      const char c = text[++i];
      switch (c) {
        case '\n': break;
        case '\\': case '\'': case '"': out.push_back(c); break;
        case 'a': out.push_back('\a'); break;
        case 'b': out.push_back('\b'); break;
        case 'f': out.push_back('\f'); break;
        case 'n': out.push_back('\n'); break;
        case 'r': out.push_back('\r'); break;
        case 't': out.push_back('\t'); break;
        case 'v': out.push_back('\v'); break;
        case 'x': i = hex(text, i, 2, &out); break;
        case 'u': i = hex(text, i, 4, &out); break;
        case 'U': i = hex(text, i, 8, &out); break;
        case 'N': error("the escape \\N{…} is not supported in a string; write the character itself");
        default:
          if (c >= '0' && c <= '7') {
            char32_t code = 0;
            size_t end = i;
            while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7')
              code = code * 8 + static_cast<char32_t>(text[end++] - '0');
            append_utf8(out, code);
            i = end - 1;
          } else {
            out.push_back('\\');
            out.push_back(c);
          }
      }
    }
    return out;
  }

  // Appends the character whose hex digits follow text[i]; returns the index of the last digit.
  size_t hex(std::string_view text, size_t i, size_t count, std::string* out) const {
    char32_t code = 0;
    for (size_t k = 1; k <= count; ++k) {
      const char c = i + k < text.size() ? text[i + k] : '\0';
      const bool digit = c >= '0' && c <= '9';
      const char letter = static_cast<char>(c | 0x20);
      if (!digit && (letter < 'a' || letter > 'f')) error("a \\x, \\u or \\U escape in a string is cut short");
      code = code * 16 + static_cast<char32_t>(digit ? c - '0' : letter - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      error("an escape in a string is no Unicode character; write the character itself");
    append_utf8(*out, code);
    return i + count;
  }

  void operation(std::string* open) {
    for (const std::string_view op : kOperators) {
      if (!at(op)) continue;
      if (op == "(") open->push_back(')');
      if (op == "[") open->push_back(']');
      if (op == "{") open->push_back('}');
      if (op == ")" || op == "]" || op == "}") {
        if (open->empty()) error("unexpected '" + std::string(op) + "'");
        if (open->back() != op.front())
          error("unexpected '" + std::string(op) + "', expected '" + open->back() + "'");
        open->pop_back();
      }
      push(TokenKind::kOperator, std::string(op));
      return advance(at_ + op.size());
    }
    size_t length = 0;
    decode_utf8(rest_, at_, &length);
    error("unexpected character '" + std::string(rest_.substr(at_, length)) + "' in a tag");
  }

  std::string text_;
  std::string_view rest_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd: return "end of template";
    case TokenKind::kString: return "a string";
    case TokenKind::kData: return "template text";
    default: return "'" + token.text + "'";
  }
}

}  // namespace slipstream::jinja
