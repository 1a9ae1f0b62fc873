// Strict UTF-8 by the table of well-formed sequences (Unicode 3.9, table 3-7): no surrogates, no overlong forms, at most
// U+10FFFF. The one place that knows it; a leaf of everything else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slipstream {

struct Utf8Sequence {
  size_t bytes;    // well-formed so far, at least 1
  bool complete;   // a whole character
  bool truncated;  // the text ended inside a character that could still be completed
};

/// What starts at text[at]; at < text.size().
Utf8Sequence utf8_sequence_at(std::string_view text, size_t at);

/// The offset of the first byte that is not part of a whole character, or npos when all is well.
size_t first_invalid_utf8(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return first_invalid_utf8(text) == std::string_view::npos; }

/// Appends the character `code`, at most U+10FFFF.
void append_utf8(std::string& out, char32_t code);

}  // namespace slipstream
