// GPT-2's printable stand-ins for bytes: in the files of a byte-level vocabulary each byte is one character. Knows no
// tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream {

/// The character that stands for `byte`: itself when printable Latin-1, else U+0100 + its order among the others.
char32_t byte_character(uint8_t byte);

/// Appends the characters of `bytes`.
void append_byte_characters(std::string& out, std::string_view bytes);

/// Appends the bytes that `text` (valid UTF-8) stands for; false, with `out` unchanged, when a character is none of
/// the 256.
bool append_bytes_of(std::string& out, std::string_view text);

}  // namespace slipstream
