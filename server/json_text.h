// JSON written by hand for the per-token path: appends to a string, no document in between. Output is valid JSON and
// valid UTF-8 for any input bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::json_text {

/// A string literal with its quotes; malformed UTF-8 becomes U+FFFD, one per byte.
void append_string(std::string& out, std::string_view text);
void append_int(std::string& out, int64_t value);
/// Shortest text that reads back as the same float; null for NaN and infinities.
void append_float(std::string& out, float value);
/// [1,2,3]: the bytes of `text` as numbers.
void append_bytes(std::string& out, std::string_view text);

inline std::string quoted(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

/// `text` with every malformed byte replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace slipstream::json_text
