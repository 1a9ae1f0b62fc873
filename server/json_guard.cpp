// An iterative recogniser for RFC 8259; see json_guard.h.
#include "server/json_guard.h"

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "config/limits.h"
#include "engine/base/utf8.h"

namespace slipstream {
namespace {

class Guard {
 public:
  explicit Guard(std::string_view text)
      : begin_(reinterpret_cast<const unsigned char*>(text.data())), at_(begin_), end_(begin_ + text.size()) {}

  Status run() {
    if (!document()) {
      const auto offset = static_cast<int64_t>(at_ - begin_);
      return invalid_argument("the body is not valid JSON: " + std::string(reason_) + " at byte " +
                                  std::to_string(offset),
                              path());
    }
    return Ok{};
  }

 private:
  struct Frame {
    bool object = false;
    std::set<std::string> keys;  // ordered: no hash to attack
    const std::string* key = nullptr;  // the one whose value is being read
    int64_t index = 0;           // of the array element being read
  };
  enum class Expect : uint8_t { kValue, kFirst, kKey, kAfter };

  /// Dotted path of the value that was being read, cut at the first 8 levels and at keys that are no plain names.
  std::string path() const {
    std::string out;
    for (size_t level = 0; level < frames_.size() && level < 8; ++level) {
      const Frame& frame = frames_[level];
      std::string part = frame.object ? (frame.key ? *frame.key : "") : std::to_string(frame.index);
      if (part.empty() || part.size() > 64) break;
      for (const char c : part)
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') return out;
      out += (out.empty() ? "" : ".") + part;
    }
    return out;
  }

  bool fail(const char* reason) {
    reason_ = reason;
    return false;
  }
  void blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }

  bool document() {
    Expect expect = Expect::kValue;
    for (;;) {
      blanks();
      if (at_ == end_)
        return expect == Expect::kAfter && frames_.empty() ? true : fail("the text ends too early");
      if (expect == Expect::kAfter) {
        if (frames_.empty()) return fail("text after the value");
        const bool object = frames_.back().object;
        if (*at_ == ',') {
          ++at_;
          frames_.back().key = nullptr;
          ++frames_.back().index;
          expect = object ? Expect::kKey : Expect::kValue;
        } else if (*at_ == (object ? '}' : ']')) {
          ++at_;
          frames_.pop_back();
        } else {
          return fail("a comma or a closing bracket is missing");
        }
      } else if (expect == Expect::kFirst) {
        const bool object = frames_.back().object;
        if (*at_ == (object ? '}' : ']')) {
          ++at_;
          frames_.pop_back();
          expect = Expect::kAfter;
        } else {
          expect = object ? Expect::kKey : Expect::kValue;
        }
      } else if (expect == Expect::kKey) {
        if (!key()) return false;
        expect = Expect::kValue;
      } else if (*at_ == '{' || *at_ == '[') {
        if (static_cast<int32_t>(frames_.size()) >= limits::kJsonDepth) return fail("nesting deeper than 64 levels");
        frames_.emplace_back();
        frames_.back().object = *at_ == '{';
        ++at_;
        expect = Expect::kFirst;
      } else {
        if (!scalar()) return false;
        expect = Expect::kAfter;
      }
    }
  }

  bool key() {
    if (*at_ != '"') return fail("an object key must be a string");
    std::string name;
    if (!string(&name)) return false;
    if (++keys_ > limits::kJsonKeys) return fail("too many object keys");
    auto& names = frames_.back().keys;
    if (static_cast<int32_t>(names.size()) >= limits::kJsonKeysPerObject) return fail("too many keys in one object");
    const auto [entry, fresh] = names.insert(std::move(name));
    frames_.back().key = &*entry;
    if (!fresh) return fail("a duplicate key");
    blanks();
    if (at_ == end_ || *at_ != ':') return fail("a colon is missing");
    ++at_;
    return true;
  }

  bool scalar() {
    if (*at_ == '"') return string(nullptr);
    if (*at_ == '-' || (*at_ >= '0' && *at_ <= '9')) return number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (static_cast<size_t>(end_ - at_) >= word.size() &&
          std::string_view(reinterpret_cast<const char*>(at_), word.size()) == word) {
        at_ += word.size();
        return true;
      }
    }
    return fail("not a JSON value");
  }

  bool number() {
    const unsigned char* start = at_;
    const auto digits = [&] {
      const unsigned char* first = at_;
      while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
      return at_ != first;
    };
    if (*at_ == '-') ++at_;
    if (at_ < end_ && *at_ == '0')
      ++at_;
    else if (!digits())
      return fail("a malformed number");
    if (at_ < end_ && *at_ == '.') {
      ++at_;
      if (!digits()) return fail("a malformed number");
    }
    if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (!digits()) return fail("a malformed number");
    }
    if (at_ - start > limits::kJsonNumberBytes) return fail("a number with too many digits");
    const std::string text(start, at_);
    if (!std::isfinite(std::strtod(text.c_str(), nullptr))) return fail("a number beyond the range of a double");
    return true;
  }

  /// `out` receives the unescaped text when wanted.
  bool string(std::string* out) {
    ++at_;
    while (at_ < end_) {
      if (*at_ == '"') {
        ++at_;
        return true;
      }
      if (*at_ == '\\') {
        if (!escape(out)) return false;
        continue;
      }
      if (*at_ < 0x20) return fail("a control character inside a string");
      size_t length = 1;
      if (*at_ >= 0x80) {
        const Utf8Sequence sequence =
            utf8_sequence_at({reinterpret_cast<const char*>(at_), static_cast<size_t>(end_ - at_)}, 0);
        if (!sequence.complete) return fail("invalid UTF-8");
        length = sequence.bytes;
      }
      if (out) out->append(reinterpret_cast<const char*>(at_), length);
      at_ += length;
    }
    return fail("an unterminated string");
  }

  bool hex4(uint32_t* out) {
    if (end_ - at_ < 4) return fail("a malformed escape");
    *out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const unsigned char c = *at_;
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) return fail("a malformed escape");
      *out = *out * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }

  bool escape(std::string* out) {
    ++at_;
    if (at_ == end_) return fail("an unterminated string");
    const unsigned char c = *at_++;
    if (c == 'u') {
      uint32_t code = 0;
      if (!hex4(&code)) return false;
      if (code >= 0xdc00 && code <= 0xdfff) return fail("a lone surrogate");
      if (code >= 0xd800 && code <= 0xdbff) {
        uint32_t low = 0;
        if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') return fail("a lone surrogate");
        at_ += 2;
        if (!hex4(&low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return fail("a lone surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      }
      if (out) append_utf8(*out, code);
      return true;
    }
    const std::string_view names = "\"\\/bfnrt";
    const std::string_view values = "\"\\/\b\f\n\r\t";
    const size_t index = names.find(static_cast<char>(c));
    if (index == std::string_view::npos) return fail("an unknown escape");
    if (out) out->push_back(values[index]);
    return true;
  }

  const unsigned char* begin_;
  const unsigned char* at_;
  const unsigned char* end_;
  std::vector<Frame> frames_;
  int32_t keys_ = 0;
  const char* reason_ = "";
};

}  // namespace

Status check_json(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > limits::kBodyBytes)
    return invalid_argument("the body of " + std::to_string(text.size()) + " bytes is longer than the limit of " +
                            std::to_string(limits::kBodyBytes));
  return Guard(text).run();
}

}  // namespace slipstream
