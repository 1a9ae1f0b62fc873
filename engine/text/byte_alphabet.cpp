// The 256-entry table and its inverse, built once.
#include "engine/text/byte_alphabet.h"

#include <array>

#include "engine/text/unicode.h"

namespace slipstream {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 0x144> byte{};  // -1: stands for none

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      character[static_cast<size_t>(b)] = c;
      byte[c] = static_cast<int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

char32_t byte_character(uint8_t byte) { return alphabet().character[byte]; }

void append_byte_characters(std::string& out, std::string_view bytes) {
  for (char byte : bytes) append_utf8(out, byte_character(static_cast<uint8_t>(byte)));
}

bool append_bytes_of(std::string& out, std::string_view text) {
  const size_t before = out.size();
  const auto& table = alphabet().byte;
  for (size_t at = 0; at < text.size(); at += unicode::length_at(text, at)) {
    const char32_t c = unicode::code_point_at(text, at);
    if (c >= table.size() || table[c] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(static_cast<uint8_t>(table[c])));
  }
  return true;
}

}  // namespace slipstream
