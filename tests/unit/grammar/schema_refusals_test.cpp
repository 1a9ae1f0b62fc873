// Schemas that are refused: by the name of the keyword, at its place.
#include "engine/grammar/schema_keywords.h"
#include "tests/unit/grammar/grammar_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

std::string refused(const std::string& schema) { return refusal(Format::json_schema(schema, "response_format.json_schema.schema")); }

}  // namespace

TEST_CASE("every keyword of the table is enforced, an annotation, or refused by name and place") {
  for (const auto& keyword : grammar::schema_keywords()) {
    const std::string schema = R"({"type":"object","properties":{"p":{")" + std::string(keyword.name) + R"(":{}}}})";
    INFO(schema);
    if (keyword.use == grammar::KeywordUse::kAnnotation) {
      CHECK(accepts(compiled(Format::json_schema(schema)), R"({"p":[1]})"));
    } else if (keyword.use == grammar::KeywordUse::kRefused) {
      CHECK(contains(refused(schema), "response_format.json_schema.schema.properties.p." + std::string(keyword.name) + ": "));
      CHECK(contains(refused(schema), "\"" + std::string(keyword.name) + "\" is not supported"));
    }
  }
  CHECK(contains(refused(R"({"typo":1})"), "schema.typo: JSON schema: unknown keyword \"typo\""));
  CHECK(accepts(compiled(Format::json_schema(R"({"type":"null","x-order":1})")), "null"));
}

TEST_CASE("every format is enforced, an annotation, or refused") {
  for (const auto& format : grammar::string_formats())
    compiled(Format::json_schema(R"({"type":"string","format":")" + std::string(format.name) + "\"}"));
  CHECK(contains(refused(R"({"items":{"format":"postcode"}})"), "schema.items.format: JSON schema: format \"postcode\" is not supported; known are date-time"));
}

TEST_CASE("values of keywords") {
  CHECK(contains(refused(R"({"type":"text"})"), "schema.type: JSON schema: type is \"text\"; it must be null, boolean"));
  CHECK(contains(refused(R"({"properties":{"a":{"minLength":-1}}})"), "properties.a.minLength: "));
  CHECK(contains(refused(R"({"minimum":"1"})"), "minimum is \"1\"; it must be a number"));
  CHECK(contains(refused(R"({"enum":[]})"), "enum is []; it must be a list that is not empty"));
  CHECK(contains(refused(R"({"anyOf":{}})"), "schema.anyOf: "));
  CHECK(contains(refused(R"({"required":"a"})"), "schema.required: "));
  CHECK(contains(refused(R"({"properties":{"a":1}})"), "properties is {\"a\":1}; it must be an object of schemas"));
  CHECK(contains(refused(R"({"items":[{}]})"), "schema.items: "));
  CHECK(contains(refused(R"({"multipleOf":0})"), "schema.multipleOf: "));
  CHECK(contains(refused(R"g({"pattern":"(?=a)"})g"), "schema.pattern: regular expression: look-ahead"));
  CHECK(contains(refused(R"({"maxLength":1000000})"), "schema.maxLength: "));
  CHECK(contains(refused("[1]"), "a schema is an object"));
  CHECK(contains(refused("{"), "not valid JSON"));
}

TEST_CASE("what cannot be met, cannot be told apart, or leads nowhere") {
  CHECK(contains(refused("false"), "matches no text"));
  CHECK(contains(refused(R"({"type":"string","enum":[1]})"), "matches no text"));
  CHECK(contains(refused(R"({"type":"integer","minimum":3,"maximum":2})"), "matches no text"));
  CHECK(contains(refused(R"({"properties":{"a":false},"required":["a"]})"), "matches no text"));
  CHECK(contains(refused(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"), "schema.oneOf: JSON schema: branches 0 and 1"));
  CHECK(contains(refused(R"({"oneOf":[{"type":"string","pattern":"a"},{"type":"string","pattern":"b"}]})"), "use anyOf"));
  CHECK(contains(refused(R"({"type":"array","uniqueItems":true,"items":{"type":"string"}})"), "schema.uniqueItems: "));
  CHECK(contains(refused(R"({"$ref":"#/$defs/a"})"), "schema.$ref: JSON schema: $ref \"#/$defs/a\" leads nowhere"));
  CHECK(contains(refused(R"({"$ref":"https://example.org/s"})"), "does not lead to a part of this schema"));
  CHECK(contains(refused(R"({"$ref":"#"})"), "leads back to the same place"));
  CHECK(contains(refused(R"({"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}})"), "leads back"));
}
