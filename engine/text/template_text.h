// A string that remembers, byte range by byte range, whether it came from the template or from the request. Owns
// Text and its builder; must never know values, the template language or tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/utf8.h"

namespace slipstream::jinja {

/// Bytes up to `end` (exclusive), from the end of the run before.
struct Run {
  size_t end = 0;
  bool user = false;
};

/// Immutable UTF-8 with provenance. Offsets are bytes unless said; Python's indices are code points.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool user);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool ascii() const { return ascii_; }
  /// Where the byte came from. offset < size().
  bool user_at(size_t offset) const;
  /// Code points.
  int64_t length() const;
  /// Byte offset of a code point, 0 <= index <= length().
  size_t offset_of(int64_t index) const;
  /// Bytes [from, to); both on code point borders.
  Text slice(size_t from, size_t to) const;
  /// Never empty for a text that is not empty; ends ascend, the last is size().
  std::vector<Run> runs() const;

 private:
  friend class TextBuilder;
  std::string bytes_;
  std::vector<Run> runs_;  // empty: all of user_
  bool user_ = false;
  bool ascii_ = true;
};

class TextBuilder {
 public:
  void append(std::string_view bytes, bool user);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, size_t from, size_t to);
  size_t size() const { return bytes_.size(); }
  /// The text so far; the builder is empty afterwards.
  Text take();

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

/// The code point that starts at `offset`; *length is its bytes. The text must be valid UTF-8.
char32_t decode_utf8(std::string_view bytes, size_t offset, size_t* length);

}  // namespace slipstream::jinja
