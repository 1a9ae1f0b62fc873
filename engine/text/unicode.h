// The few Unicode facts that tokenizers need beside engine/base/utf8: decoding, repair with U+FFFD, NFC, white space.
// Knows no vocabulary. Character properties come from utf8proc; no tables of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/utf8.h"

namespace slipstream::unicode {

inline constexpr char32_t kReplacement = 0xFFFD;

using slipstream::first_invalid_utf8;

/// Length of the character at `at` in valid UTF-8.
inline size_t length_at(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/// The character at `at` in valid UTF-8.
char32_t code_point_at(std::string_view text, size_t at);
/// Start of the character that ends before `end` (> 0) in valid UTF-8.
size_t previous(std::string_view text, size_t end);

/// Appends `bytes` to `out`; every maximal ill-formed part becomes one U+FFFD (Unicode 3.9, "best practice", as
/// Rust and Python do). An incomplete character at the end stays unwritten and is returned as its length, 0..3.
size_t append_repaired(std::string& out, std::string_view bytes);

enum class Form { kNfc, kNfd, kNfkc, kNfkd };
/// Normal form of valid UTF-8, near-linear also for long runs of combining marks.
std::string normalize(std::string_view text, Form form);

/// Unicode White_Space.
bool is_white_space(char32_t c);
/// General category N*, L*/M*/Nd/Pc (a regex word character), P*.
bool is_number(char32_t c);
bool is_word(char32_t c);
bool is_punctuation(char32_t c);

}  // namespace slipstream::unicode
