// Expressions of tokenizer files through PCRE2: meaning, refusals, limits.
#include "engine/text/pattern.h"

#include "tests/catch.h"

using namespace slipstream;

namespace {

std::vector<std::string> found(std::string_view expression, std::string_view text) {
  const auto pattern = Pattern::compile(expression);
  REQUIRE(pattern.ok());
  Pattern::Scratch scratch;
  std::vector<Pattern::Range> ranges;
  REQUIRE(pattern->find_all(text, scratch, &ranges).ok());
  std::vector<std::string> out;
  for (const auto& range : ranges) out.emplace_back(text.substr(range.begin, range.end - range.begin));
  return out;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("white space is Unicode's, not PCRE2's") {
  CHECK(found(R"(\s+)", "a \xC2\x85\xE3\x80\x80" "b\xE1\xA0\x8E" "c") == Strings{" \xC2\x85\xE3\x80\x80"});
  CHECK(found(R"([\s]+)", "b\xE1\xA0\x8E" "c").empty());
  CHECK(found(R"(\S+)", "b\xE1\xA0\x8E" "c d") == Strings{"b\xE1\xA0\x8E" "c", "d"});
  CHECK(found(R"([^\s\p{L}]+)", "a\xE1\xA0\x8E b") == Strings{"\xE1\xA0\x8E"});
}

TEST_CASE("words have marks, anchors are per line, escapes are Ruby's") {
  CHECK(found(R"(\w+)", "e\xCC\x81_1-x") == Strings{"e\xCC\x81_1", "x"});
  CHECK(found("x$", "x\nyx") == Strings{"x", "x"});
  CHECK(found(R"(\u00e9)", "a\xC3\xA9") == Strings{"\xC3\xA9"});
  CHECK(found(R"(\h)", "g0 ") == Strings{"0"});
  CHECK(found(R"(\s+$)", "a  b \t") == Strings{" \t"});
  CHECK(found(R"(\p{Han}+)", "a\xE4\xB8\xAD\xE3\x80\x82") == Strings{"\xE4\xB8\xAD"});
  CHECK(found("(?i:'s)", "'\xC5\xBF 'S") == Strings{"'\xC5\xBF", "'S"});
}

TEST_CASE("empty matches are passed over") {
  CHECK(found("a*", "baac") == Strings{"aa"});
  CHECK(found("(?=a)", "aaa").empty());
  CHECK(found("x", "").empty());
}

TEST_CASE("a literal is quoted") {
  const std::string literal = "a.b[c]\\d(e)*\xC3\xA9 |^$#";
  CHECK(found(quote_expression(literal), "x" + literal + "y") == Strings{literal});
}

TEST_CASE("what cannot be expressed is refused by name") {
  const auto refused = [](std::string_view expression, ErrorCode code, const char* words) {
    const auto pattern = Pattern::compile(expression);
    REQUIRE_FALSE(pattern.ok());
    CHECK(pattern.error().code == code);
    INFO(pattern.error().message);
    CHECK(pattern.error().message.find(words) != std::string::npos);
  };
  refused(R"([\p{L}&&[^a-z]])", ErrorCode::kUnsupported, "intersection &&");
  refused("[a[bc]]", ErrorCode::kUnsupported, "a class inside a class");
  refused(R"([a\W])", ErrorCode::kUnsupported, "\\W inside a class");
  refused(R"(\R)", ErrorCode::kUnsupported, "\\R");
  refused("(a", ErrorCode::kCorrupt, "does not compile");
  refused("a\\", ErrorCode::kCorrupt, "backslash");
}

TEST_CASE("an exponential search ends with an error of the request") {
  const auto pattern = Pattern::compile("(?:a|aa)+[bc]");
  REQUIRE(pattern.ok());
  Pattern::Scratch scratch;
  std::vector<Pattern::Range> ranges;
  const Status status = pattern->find_all(std::string(5000, 'a'), scratch, &ranges);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kInvalidArgument);
}
