// Free text with constrained parts: the request field, and the same built by hand.
#include "tests/unit/grammar/grammar_fixture.h"

using namespace slipstream;
using namespace slipstream::test;
using grammar::Tag;

namespace {

std::shared_ptr<const grammar::Grammar> tags(const std::string& json) {
  auto format = grammar::parse_structural_tag(json, "structural_tag");
  INFO((format.ok() ? std::string() : format.error().message + " [" + format.error().param + "]"));
  REQUIRE(format.ok());
  return compiled(*format);
}

std::string refused(const std::string& json) {
  const auto format = grammar::parse_structural_tag(json, "structural_tag");
  REQUIRE_FALSE(format.ok());
  CHECK(format.error().code == ErrorCode::kInvalidArgument);
  return format.error().param + ": " + format.error().message;
}

}  // namespace

TEST_CASE("structures and triggers") {
  const auto grammar = tags(R"({"structures":[
    {"begin":"<f=a>","schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]},"end":"</f>"},
    {"begin":"<f=b>","schema":{"type":"null"},"end":"</f>"}],"triggers":["<f="]})");
  CHECK(accepts(grammar, ""));
  CHECK(accepts(grammar, "Only text, 1 < 2, <g=a>, <f."));
  CHECK(accepts(grammar, "So: <f=a>{\"x\": 1}</f> and <<f=b>null</f>"));
  CHECK_FALSE(accepts(grammar, "<f="));
  CHECK_FALSE(accepts(grammar, "<f=c>"));
  CHECK_FALSE(accepts(grammar, "<f=a>{\"x\": \"1\"}</f>"));
  CHECK_FALSE(accepts(grammar, "<f=b>null"));
}

TEST_CASE("formats of parts") {
  const auto grammar = tags(R"({"type":"structural_tag","format":{"type":"sequence","elements":[
    {"type":"const_string","value":"Plan: "},
    {"type":"tag","begin":"<think>","content":{"type":"any_text"},"end":"</think>"},
    {"type":"or","elements":[{"type":"regex","pattern":"[0-9]+"},{"type":"grammar","grammar":"root ::= \"none\""},
      {"type":"json_schema","json_schema":{"type":"boolean"}}]},
    {"type":"any_text","excludes":["!"]}]}})");
  CHECK(accepts(grammar, "Plan: <think>a < b </thin></think>12 and more"));
  CHECK(accepts(grammar, "Plan: <think></think>none"));
  CHECK(accepts(grammar, "Plan: <think></think>true"));
  CHECK_FALSE(accepts(grammar, "Plan: <think>x</think>12!"));
  CHECK_FALSE(accepts(grammar, "Plan: <think>x"));
  CHECK_FALSE(accepts(grammar, "Plan: 12"));
}

TEST_CASE("triggered tags: how many") {
  const std::string tag = R"("tags":[{"begin":"<t>","content":{"type":"const_string","value":"x"},"end":"</t>"}])";
  const auto with = [&](const std::string& more) {
    return tags(R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<t"],)" + tag + more + "}}");
  };
  CHECK(accepts(with(""), "a<t>x</t>b<t>x</t>c"));
  CHECK_FALSE(accepts(with(R"(,"at_least_one":true)"), "a"));
  CHECK(accepts(with(R"(,"at_least_one":true)"), "a<t>x</t>"));
  CHECK(accepts(with(R"(,"stop_after_first":true)"), "a"));
  CHECK(accepts(with(R"(,"stop_after_first":true)"), "a<t>x</t>"));
  CHECK_FALSE(accepts(with(R"(,"stop_after_first":true)"), "a<t>x</t>b"));
}

TEST_CASE("tags with a separator") {
  const auto with = [&](const std::string& more) {
    return tags(R"({"type":"structural_tag","format":{"type":"tags_with_separator","separator":", ","tags":[
      {"begin":"<a>","content":{"type":"any_text"},"end":"</a>"}])" + more + "}}");
  };
  CHECK(accepts(with(""), ""));
  CHECK(accepts(with(""), "<a>1</a>, <a></a>"));
  CHECK_FALSE(accepts(with(""), "<a>1</a><a></a>"));
  CHECK_FALSE(accepts(with(R"(,"at_least_one":true)"), ""));
  CHECK_FALSE(accepts(with(R"(,"stop_after_first":true)"), "<a>1</a>, <a></a>"));
}

TEST_CASE("parameters in XML") {
  const auto grammar = compiled(Format::xml_parameters(
      R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]}},"required":["city"]})"));
  CHECK(accepts(grammar, "<parameter=city>\nSan \"Jos\xC3\xA9\"\nUSA\n</parameter>"));
  CHECK(accepts(grammar, "<parameter=city>\nx\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=unit>\nC\n</parameter>"));
  CHECK(accepts(grammar, "<parameter=city>\n</parame\n</parameter>"));
  CHECK_FALSE(accepts(grammar, "<parameter=days>\n3\n</parameter>"));
  CHECK_FALSE(accepts(grammar, "<parameter=city>\nx\n</parameter>\n<parameter=days>\nthree\n</parameter>"));
  CHECK_FALSE(accepts(grammar, "<parameter=city>\nx</parameter>\n</parameter>"));
  CHECK_FALSE(accepts(grammar, "<parameter=city>\nx\n</parameter>\n"));
  CHECK(accepts(compiled(Format::xml_parameters(R"({"type":"object","properties":{}})")), ""));
}

TEST_CASE("special tokens are neither text nor part of free text") {
  const Tag call{Format::special_token(7), Format::json_object(), Format::special_token(8)};
  const auto format = grammar::triggered_tags({}, {call}, {});
  REQUIRE(format.ok());
  const auto grammar = compiled(*format);
  grammar::Stacks stacks(*grammar);
  REQUIRE(stacks.start());
  REQUIRE(stacks.read("text "));
  CHECK_FALSE(stacks.read_token(8));
  REQUIRE(stacks.read_token(7));
  CHECK_FALSE(stacks.read("text"));
  REQUIRE(stacks.read("{}"));
  CHECK_FALSE(stacks.reading().complete);
  REQUIRE(stacks.read_token(8));
  CHECK(stacks.reading().complete);
}

TEST_CASE("faults of a structural tag, at their places") {
  CHECK(contains(refused("{"), "not valid JSON"));
  CHECK(contains(refused("[]"), "structural_tag needs"));
  CHECK(contains(refused(R"({"type":"structural_tag","format":{"type":"text"}})"), "structural_tag.format.type: structural tag: unknown format type \"text\""));
  CHECK(contains(refused(R"({"type":"structural_tag","format":{"type":"sequence","elements":[{"type":"regex"}]}})"),
                 "structural_tag.format.elements.0.pattern: "));
  CHECK(contains(refused(R"({"type":"structural_tag","format":{"type":"regex","pattern":"a","flags":"i"}})"), "format.flags: "));
  CHECK(contains(refused(R"({"structures":[],"triggers":["a"]})"), "structural_tag.structures: "));
  CHECK(contains(refused(R"({"structures":[{"begin":"<a>","schema":{},"end":""}],"triggers":["<b"]})"), "\"<a>\" has no trigger"));
  CHECK(contains(refused(R"({"structures":[{"begin":"<a>","schema":{},"end":""}],"triggers":["<a","<b"]})"), "no tag begins with the trigger \"<b\""));
  auto inside = grammar::parse_structural_tag(R"({"structures":[{"begin":"<a>","schema":{"not":{}},"end":""}],"triggers":["<a"]})", "structural_tag");
  REQUIRE(inside.ok());
  CHECK(contains(refusal(*inside), "structural_tag.structures.0.schema.not: "));
}
