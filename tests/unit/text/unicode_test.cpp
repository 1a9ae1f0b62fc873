// UTF-8 and NFC against the examples of the Unicode standard.
#include "engine/text/unicode.h"

#include "tests/catch.h"

using namespace slipstream;

namespace {

std::string repaired(std::string_view bytes, size_t* rest = nullptr) {
  std::string out;
  const size_t incomplete = unicode::append_repaired(out, bytes);
  if (rest != nullptr) *rest = incomplete;
  return out;
}

const std::string kR = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

TEST_CASE("invalid UTF-8 is found where it starts") {
  const size_t npos = std::string_view::npos;
  CHECK(unicode::first_invalid_utf8("") == npos);
  CHECK(unicode::first_invalid_utf8("a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x99\x82\xF4\x8F\xBF\xBF") == npos);
  CHECK(unicode::first_invalid_utf8("ab\x80") == 2);
  CHECK(unicode::first_invalid_utf8("a\xC0\xAF") == 1);          // overlong
  CHECK(unicode::first_invalid_utf8("\xE0\x9F\xBF") == 0);       // overlong
  CHECK(unicode::first_invalid_utf8("\xED\xA0\x80") == 0);       // surrogate
  CHECK(unicode::first_invalid_utf8("\xF4\x90\x80\x80") == 0);   // above U+10FFFF
  CHECK(unicode::first_invalid_utf8("x\xE4\xB8") == 1);          // truncated
}

TEST_CASE("repair follows the examples of Unicode 3.9") {
  // Table 3-8 to 3-11 of the standard.
  CHECK(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") == kR + kR + kR + kR + kR + kR + kR + kR + "A");
  CHECK(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") == kR + kR + kR + kR + kR + kR + kR + kR + "A");
  CHECK(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == kR + kR + kR + kR + kR + "A" + kR + kR + "B");
  CHECK(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == kR + kR + kR + kR + "A");
  size_t rest = 0;
  CHECK(repaired("a\xF0\x9F\x99", &rest) == "a");
  CHECK(rest == 3);
  CHECK(repaired("\xF0\x9F\x99\x82", &rest) == "\xF0\x9F\x99\x82");
  CHECK(rest == 0);
}

TEST_CASE("normal forms") {
  using unicode::Form;
  CHECK(unicode::normalize("e\xCC\x81", Form::kNfc) == "\xC3\xA9");
  CHECK(unicode::normalize("\xC3\xA9", Form::kNfd) == "e\xCC\x81");
  CHECK(unicode::normalize("\xE2\x84\xAB", Form::kNfc) == "\xC3\x85");                   // Angstrom sign
  CHECK(unicode::normalize("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", Form::kNfc) == "\xEA\xB0\x81");  // Hangul
  CHECK(unicode::normalize("\xE1\xB8\x8B\xCC\xA3", Form::kNfc) == "\xE1\xB8\x8D\xCC\x87");  // reordered, UAX 15 figure 4
  CHECK(unicode::normalize("\xE0\xA5\x98", Form::kNfc) == "\xE0\xA4\x95\xE0\xA4\xBC");      // composition exclusion
  CHECK(unicode::normalize("\xEF\xAC\x81", Form::kNfkc) == "fi");
  CHECK(unicode::normalize("\xEF\xAC\x81", Form::kNfc) == "\xEF\xAC\x81");
}

TEST_CASE("properties") {
  CHECK(unicode::is_white_space(0x85));
  CHECK(unicode::is_white_space(0x3000));
  CHECK_FALSE(unicode::is_white_space(0x180E));
  CHECK_FALSE(unicode::is_white_space(0x200B));
  CHECK(unicode::is_number(0xBD));
  CHECK(unicode::is_number(0x2160));
  CHECK_FALSE(unicode::is_number('a'));
  CHECK(unicode::is_word('_'));
  CHECK(unicode::is_word(0x301));
  CHECK_FALSE(unicode::is_word('-'));
  CHECK(unicode::is_punctuation(0x3002));
  CHECK_FALSE(unicode::is_punctuation('+'));
}
