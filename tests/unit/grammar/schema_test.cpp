// JSON Schema: valid values in the schema's order are accepted byte by byte, others are not.
#include "tests/unit/grammar/grammar_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

void check_values(const std::string& schema, const std::vector<std::string>& yes, const std::vector<std::string>& no) {
  const auto grammar = compiled(Format::json_schema(schema));
  for (const std::string& text : yes) {
    INFO(schema << " accepts " << text);
    CHECK(accepts(grammar, text));
  }
  for (const std::string& text : no) {
    INFO(schema << " refuses " << text);
    CHECK_FALSE(accepts(grammar, text));
  }
}

}  // namespace

TEST_CASE("types") {
  check_values(R"({"type":"null"})", {"null"}, {"nul", "\"null\"", "0"});
  check_values(R"({"type":"boolean"})", {"true", "false"}, {"True", "1"});
  check_values(R"({"type":"integer"})", {"0", "-7", "120"}, {"01", "1.0", "1e3", "+1", "-"});
  check_values(R"({"type":"number"})", {"0", "-0.5", "1e3", "2.5E-10"}, {".5", "1.", "00", "0x1"});
  check_values(R"({"type":["string","null"]})", {"null", "\"a\""}, {"1"});
  check_values(R"({"type":"string","nullable":true})", {"null", "\"a\""}, {"1"});
  check_values("{}", {"null", "[1, {\"a\": []}]", "\"x\"", "{}"}, {"", "nope", "[1,]"});
  check_values("true", {"{\"a\":1}"}, {"{a:1}"});
}

TEST_CASE("strings") {
  check_values(R"({"type":"string"})", {R"("")", R"("a\"\\\/\b\u00e9\ud83d\ude42")", "\"\xC3\xA9\""},
               {R"("\ud83d")", R"("\x")", "\"\n\"", "\"\xC3\"", R"("a)"});
  check_values(R"({"minLength":2,"maxLength":3})", {R"("ab")", R"("\n\u00e9x")", "\"\xF0\x9F\x99\x82\xF0\x9F\x99\x82\""},
               {R"("a")", R"("abcd")", "1"});
  check_values(R"({"type":"string","pattern":"^[ab]+$","maxLength":2})", {R"("ab")"}, {R"("aba")", R"("c")", R"("")"});
}

TEST_CASE("formats") {
  const auto format = [](const char* name) { return std::string(R"({"type":"string","format":")") + name + "\"}"; };
  check_values(format("date"), {R"("2024-02-29")", R"("1999-12-31")"}, {R"("2023-02-29")", R"("1900-02-29")", R"("2024-04-31")", R"("0000-01-01")"});
  check_values(format("date-time"), {R"("2024-02-29T23:59:59.123Z")", R"("2024-01-01T00:00:00+05:30")"}, {R"("2024-01-01")", R"("2024-01-01T24:00:00Z")"});
  check_values(format("time"), {R"("12:30:00Z")"}, {R"("12:30")", R"("12:61:00Z")"});
  check_values(format("uuid"), {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567e89b12d3a456426614174000")"});
  check_values(format("email"), {R"("a.b+c@example.org")"}, {R"("a@b")", R"("@example.org")"});
  check_values(format("ipv4"), {R"("192.168.0.1")"}, {R"("256.1.1.1")", R"("1.2.3")"});
  check_values(format("ipv6"), {R"("::1")", R"("2001:db8::ff00:42:8329")", R"("1:2:3:4:5:6:7:8")"}, {R"("1::2::3")", R"("1:2:3")"});
  check_values(format("uri"), {R"("https://example.org:80/a?b=c#d")", R"("mailto:a@b.c")"}, {R"("no uri")", R"("//x")"});
  check_values(format("duration"), {R"("P3DT4H")", R"("PT1M")"}, {R"("P")", R"("3D")"});
  check_values(format("password"), {R"("anything")"}, {"1"});
}

TEST_CASE("bounds of numbers") {
  check_values(R"({"type":"integer","minimum":-5,"maximum":17})", {"-5", "-1", "0", "9", "10", "17"}, {"-6", "18", "-10", "170", "1.5"});
  check_values(R"({"type":"integer","exclusiveMinimum":99,"exclusiveMaximum":102})", {"100", "101"}, {"99", "102", "1000"});
  check_values(R"({"type":"integer","minimum":1000000000000})", {"1000000000000", "99999999999999"}, {"999999999999", "-1"});
  check_values(R"({"type":"number","minimum":0.25,"exclusiveMaximum":1.5})", {"0.25", "0.3", "1", "1.49999", "0.250"}, {"0.2", "0.249", "1.5", "1.50", "2", "-1", "3e-1"});
  check_values(R"({"type":"number","maximum":-2.5})", {"-2.5", "-3", "-2.51", "-10"}, {"-2.4", "0", "-2"});
  check_values(R"({"minimum":0})", {"0", "0.0", "12.5"}, {"-1", "\"a\""});
  check_values(R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"1", "-8"});
  check_values(R"({"type":"integer","multipleOf":5,"minimum":12,"maximum":31})", {"15", "30"}, {"10", "35", "16"});
  check_values(R"({"type":"number","multipleOf":0.25})", {"0.25", "1.5", "3", "2.50"}, {"0.3", "0.26", "1.125"});
}

TEST_CASE("objects: order, required and optional properties, white space") {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]})";
  check_values(schema, {R"({"b":"x"})", R"({"a": 1, "b": "x"})", R"({"b":"x","c":null})", "{\n  \"a\": 1,\n  \"b\": \"\"\n}"},
               {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"b":"x",})", R"({"b":"x","b":"y"})"});
  const auto fixed = compiled(Format::json_schema(schema, {}, {grammar::Whitespace::Kind::kFixed, {}}));
  CHECK(accepts(fixed, R"({"a": 1, "b": "x"})"));
  CHECK_FALSE(accepts(fixed, R"({"a":1,"b":"x"})"));
  const auto none = compiled(Format::json_schema(schema, {}, {grammar::Whitespace::Kind::kPattern, ""}));
  CHECK(accepts(none, R"({"a":1,"b":"x"})"));
  CHECK_FALSE(accepts(none, R"({"a": 1,"b":"x"})"));
  CHECK_FALSE(accepts(compiled(Format::json_schema(schema)), "{" + std::string(200, ' ') + R"("b":"x"})"));
}

TEST_CASE("objects: additional and pattern properties, names, counts") {
  check_values(R"({"type":"object"})", {"{}", R"({"x":[1]})"}, {"[]"});
  check_values(R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
               {"{}", R"({"a":1,"x":true,"y":false})", R"({"ab":true})"}, {R"({"a":true})", R"({"x":1})", R"({"x":true,"a":1})"});
  check_values(R"({"patternProperties":{"^n_":{"type":"integer"},"_s$":{"type":["string","integer"]}}})",
               {"{}", R"({"n_a":1,"b_s":"x"})", R"({"n_s":1})"}, {R"({"n_s":"x"})", R"({"other":1})"});
  check_values(R"({"additionalProperties":{"type":"null"},"propertyNames":{"pattern":"^[a-c]$"}})", {R"({"a":null,"c":null})"}, {R"({"d":null})"});
  check_values(R"({"additionalProperties":{"type":"null"},"minProperties":1,"maxProperties":2})", {R"({"a":null})", R"({"a":null,"b":null})"},
               {"{}", R"({"a":null,"b":null,"c":null})"});
  check_values(R"({"properties":{"a":{},"b":{},"c":{}},"minProperties":2})", {R"({"a":1,"c":2})"}, {R"({"c":1})", "{}"});
  check_values(R"({"required":["x"]})", {R"({"x":1})"}, {"{}"});
}

TEST_CASE("arrays") {
  check_values(R"({"type":"array"})", {"[]", R"([1,"a",[null]])"}, {"{}", "[1"});
  check_values(R"({"items":{"type":"integer"},"minItems":1,"maxItems":3})", {"[1]", "[1, 2,3]", "[\n  1,\n  2\n]"}, {"[]", "[1,2,3,4]", "[true]"});
  check_values(R"({"type":"array","items":{"type":"integer"},"minItems":2})", {"[1,2]", "[1,2,3,4,5]"}, {"[1]"});
  check_values(R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2})", {R"([1,"a"])"}, {"[1]", R"(["a",1])", R"([1,"a",2])"});
  check_values(R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"}})", {"[]", "[1]", "[1,null,null]"}, {"[null]", "[1,1]"});
  check_values(R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]}})", {"[]", R"(["a","c"])", R"(["a","b","c"])"}, {R"(["a","a"])"});
  check_values(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
}

TEST_CASE("enum and const, with other keywords beside them") {
  check_values(R"({"enum":["a",1,null,{"x":[1]}]})", {"\"a\"", "1", "null", R"({"x":[1]})"}, {"\"b\"", "2"});
  check_values(R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("xy")"});
  check_values(R"({"enum":["a","bb",3],"type":"string","maxLength":1})", {"\"a\""}, {"\"bb\"", "3"});
  check_values(R"({"enum":[1,5,9],"minimum":4})", {"5", "9"}, {"1"});
}

TEST_CASE("anyOf, oneOf, allOf") {
  check_values(R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"12", "\"a\""}, {"\"ab\"", "null"});
  check_values(R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"anyOf":[{"properties":{"v":{"type":"integer"}},"required":["v"]},{"properties":{"w":{"type":"null"}},"required":["w"]}]})",
               {R"({"k":"","v":1})", R"({"k":"","w":null})"}, {R"({"k":""})", R"({"v":1})"});
  check_values(R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"x":{"type":"integer"}},"required":["t","x"]},{"type":"object","properties":{"t":{"const":"b"}},"required":["t"]}]})",
               {R"({"t":"a","x":1})", R"({"t":"b"})"}, {R"({"t":"a"})", R"({"t":"b","x":1})"});
  check_values(R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","minimum":4},{"type":"string"}]})", {"3", "4", "\"\""}, {"null"});
  check_values(R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"},"a":{"minimum":5}},"required":["b"]}]})",
               {R"({"a":5,"b":null})"}, {R"({"a":4,"b":null})", R"({"a":5})"});
  check_values(R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"},{"maxLength":3}]})", {R"("ab")", R"("bxa")"}, {R"("aa")", R"("abcd")"});
}

TEST_CASE("references") {
  check_values(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})",
               {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})", R"({"v":1,"next":{"v":2}})"});
  check_values(R"({"properties":{"a":{"$ref":"#/definitions/x~1y"}},"required":["a"],"definitions":{"x/y":{"type":"null"}}})", {R"({"a":null})"}, {R"({"a":1})"});
  check_values(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"});
  check_values(R"({"$ref":"#/$defs/s","maxLength":1,"$defs":{"s":{"type":"string","minLength":1}}})", {"\"a\""}, {"\"\"", "\"ab\""});
}

TEST_CASE("any JSON object") {
  const auto grammar = compiled(Format::json_object());
  CHECK(accepts(grammar, "{}"));
  CHECK(accepts(grammar, "{\"a\": [1, {\"b\": null}], \"c\": \"\\n\"}"));
  for (const char* text : {"[]", "1", "{\"a\"}", "{\"a\":}", "{} "}) CHECK_FALSE(accepts(grammar, text));
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += "{\"a\":";
  deep += "1" + std::string(60, '}');
  CHECK(accepts(grammar, deep));
}
