// Numbers as people write them.
#include "config/value.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::config;

TEST_CASE("integers with suffixes: lower case decimal, upper case binary") {
  struct Case {
    const char* text;
    int64_t value;
  };
  for (const Case& c : {Case{"0", 0}, {"-1", -1}, {"32k", 32000}, {"32K", 32768}, {"25.6k", 25600}, {"1.5M", 1572864},
                        {"2m", 2000000}, {"1G", 1073741824}, {"1T", 1099511627776}, {"-2k", -2000},
                        {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}}) {
    INFO(c.text);
    const auto parsed = parse_integer(c.text, false);
    REQUIRE(parsed.ok());
    CHECK(*parsed == c.value);
  }
}

TEST_CASE("what is not an integer") {
  for (const char* text : {"", "-", "k", "1.5", "1.", ".5k", "1..5k", "1.2.3k", "32 k", "0x10", "1e3", "+1", "1_000", "kk",
                           "1kB", "4GiB", "9223372036854775808", "9999999999T", "1.0000001k", "1.0001k", "\xff"}) {
    INFO(text);
    CHECK_FALSE(parse_integer(text, false).ok());
  }
}

TEST_CASE("bytes") {
  CHECK(*parse_integer("4GiB", true) == 4294967296);
  CHECK(*parse_integer("4GB", true) == 4000000000);
  CHECK(*parse_integer("1.5MiB", true) == 1572864);
  CHECK(*parse_integer("512B", true) == 512);
  CHECK(*parse_integer("4G", true) == 4294967296);
  CHECK_FALSE(parse_integer("4gib", true).ok());
  CHECK_FALSE(parse_integer("0.3KiB", true).ok());
}

TEST_CASE("switches and numbers") {
  CHECK(*parse_bool("True"));
  CHECK(*parse_bool("ON"));
  CHECK_FALSE(*parse_bool("no"));
  CHECK_FALSE(parse_bool("").ok());
  CHECK_FALSE(parse_bool("2").ok());
  CHECK(*parse_number("0.25") == 0.25);
  for (const char* text : {"", "1e999", "inf", "nan", "0.5x", " 1"}) CHECK_FALSE(parse_number(text).ok());
}

TEST_CASE("shown values are escaped and cut") {
  CHECK(in_quotes("a\nb") == "\"a\\nb\"");
  CHECK(in_quotes(std::string(200, 'x')).size() < 100);
}
