// Regular expressions: which texts they accept, in both modes, and what is refused by name.
#include "tests/unit/grammar/grammar_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

void check_texts(const std::string& pattern, const std::vector<std::string>& yes, const std::vector<std::string>& no) {
  const auto grammar = compiled(Format::regex(pattern));
  for (const std::string& text : yes) {
    INFO(pattern << " accepts " << text);
    CHECK(accepts(grammar, text));
  }
  for (const std::string& text : no) {
    INFO(pattern << " refuses " << text);
    CHECK_FALSE(accepts(grammar, text));
  }
}

/// As JSON Schema's `pattern`, of strings without anything to escape.
void check_search(const std::string& pattern, const std::vector<std::string>& yes, const std::vector<std::string>& no) {
  const auto grammar = compiled(Format::json_schema(R"({"type":"string","pattern":")" + pattern + "\"}"));
  for (const std::string& text : yes) {
    INFO(pattern << " accepts " << text);
    CHECK(accepts(grammar, "\"" + text + "\""));
  }
  for (const std::string& text : no) {
    INFO(pattern << " refuses " << text);
    CHECK_FALSE(accepts(grammar, "\"" + text + "\""));
  }
}

}  // namespace

TEST_CASE("a regular expression describes the whole output") {
  check_texts("abc", {"abc"}, {"ab", "abcd", "xabc", ""});
  check_texts("a|bc*|", {"a", "b", "bccc", ""}, {"ab", "c"});
  check_texts("(?:ab){2,3}", {"abab", "ababab"}, {"ab", "abababab"});
  check_texts("(?<year>\\d{4})-[0-9]{2}?", {"2024-11"}, {"2024-1", "20x4-11"});
  check_texts("x{3}y{2,}z{0,1}", {"xxxyy", "xxxyyyyz"}, {"xxyy", "xxxy", "xxxyyzz"});
  check_texts("^abc$", {"abc"}, {"xabc", "abc$"});
  CHECK(contains(refusal(Format::regex("a^b")), "matches no text"));
}

TEST_CASE("classes and escapes") {
  check_texts("[a-c\\]\\-]+", {"ab]-c"}, {"d", ""});
  check_texts("[^a-c\\n]", {"d", "\xC3\xA9", "\xF0\x9F\x99\x82"}, {"a", "\n", "dd", "\xC3"});
  check_texts("\\w+\\s\\S", {"a_9 x", "b\tx"}, {"a-9 x", "a  "});
  check_texts("\\x41\\u00e9\\u{1F642}\\uD83D\\uDE42", {"A\xC3\xA9\xF0\x9F\x99\x82\xF0\x9F\x99\x82"}, {"A"});
  check_texts(".", {"a", "\xE2\x82\xAC"}, {"\n", "\r", "\xE2\x80\xA8", "ab"});
  check_texts("[]|a", {"a"}, {""});
  check_texts("[^]", {"a", "\n"}, {""});
  check_texts("a{,3}", {"a{,3}"}, {"aa"});
}

TEST_CASE("a pattern of a schema is found anywhere unless it is anchored") {
  check_search("b", {"b", "abc", "bb"}, {"", "ac"});
  check_search("^b", {"b", "bc"}, {"ab"});
  check_search("b$", {"b", "ab"}, {"ba"});
  check_search("^b$", {"b"}, {"bb", ""});
  check_search("^a|b$", {"ax", "xb", "a", "b"}, {"xa", "bx"});
  check_search("(^|-)id(-|$)", {"id", "x-id", "id-y", "x-id-y"}, {"xid", "idy"});
}

TEST_CASE("characters that JSON must escape are escaped") {
  const auto grammar = compiled(Format::json_schema(R"({"type":"string","pattern":"^[\"\\\\\n]$"})"));
  CHECK(accepts(grammar, R"("\"")"));
  CHECK(accepts(grammar, R"("\\")"));
  CHECK(accepts(grammar, R"("\n")"));
  CHECK_FALSE(accepts(grammar, R"("n")"));
  CHECK_FALSE(accepts(grammar, "\"\n\""));
}

TEST_CASE("what is not regular, or not served, is refused by name") {
  CHECK(contains(refusal(Format::regex("a(?=b)", "p")), "p: regular expression: look-ahead"));
  CHECK(contains(refusal(Format::regex("(?<!b)a")), "look-behind"));
  CHECK(contains(refusal(Format::regex("(a)\\1")), "back references"));
  CHECK(contains(refusal(Format::regex("\\bword")), "word boundaries"));
  CHECK(contains(refusal(Format::regex("(?i)a")), "flags"));
  CHECK(contains(refusal(Format::regex("\\p{L}")), "\\p"));
  CHECK(contains(refusal(Format::regex("a++")), "possessive"));
  CHECK(contains(refusal(Format::regex("(a")), "not closed by )"));
  CHECK(contains(refusal(Format::regex("a)")), "unmatched )"));
  CHECK(contains(refusal(Format::regex("[a")), "not closed by ]"));
  CHECK(contains(refusal(Format::regex("[b-a]")), "character range"));
  CHECK(contains(refusal(Format::regex("a{3,2}")), "wrong way round"));
  CHECK(contains(refusal(Format::regex("*a")), "nothing to repeat"));
  CHECK(contains(refusal(Format::regex("a\\")), "ends in a backslash"));
  CHECK(contains(refusal(Format::regex("\xFF")), "UTF-8"));
  CHECK(contains(refusal(Format::regex("[]")), "matches no text"));
}
