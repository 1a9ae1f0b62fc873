// Schemas to kinds, Python literals to JSON.
#include <nlohmann/json.hpp>

#include "server/output/tool_set.h"
#include "server/output/value_text.h"
#include "tests/catch.h"

using namespace slipstream::output;
using nlohmann::ordered_json;

namespace {

uint8_t kinds(const char* schema, const char* root = "{}") { return schema_kinds(ordered_json::parse(schema), ordered_json::parse(root)); }

}  // namespace

TEST_CASE("the types that a schema allows") {
  CHECK(kinds(R"({"type": "string"})") == kString);
  CHECK(kinds(R"({"type": "number"})") == (kNumber | kInteger));
  CHECK(kinds(R"({"type": ["string", "null"]})") == (kString | kNull));
  CHECK(kinds(R"({"enum": ["a", 1, null]})") == (kString | kInteger | kNull));
  CHECK(kinds(R"({"const": true})") == kBoolean);
  CHECK(kinds(R"({"anyOf": [{"type": "array"}, {"type": "null"}]})") == (kArray | kNull));
  CHECK(kinds(R"({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]})") == kString);
  CHECK(kinds(R"({"$ref": "#/$defs/City"})", R"({"$defs": {"City": {"type": "object"}}})") == kObject);
  CHECK(kinds(R"({"$ref": "#/$defs/Town"})", R"({"$defs": {"City": {"type": "object"}}})") == kAnyKind);
  CHECK(kinds("{}") == kAnyKind);
  CHECK(kinds("true") == kAnyKind);
  CHECK(kinds(R"({"type": "string", "const": 5})") == kAnyKind);  // nothing fits: then nothing is known
}

TEST_CASE("references that branch without end are looked at for a while") {
  std::string root = R"({"$defs": {"a": {"anyOf": [)";
  for (int i = 0; i < 200; ++i) root += R"({"$ref": "#/$defs/a"},)";
  root += R"({"type": "string"}]}}})";
  CHECK(kinds(R"({"$ref": "#/$defs/a"})", root.c_str()) == kAnyKind);
}

TEST_CASE("Python literals") {
  const auto as_json = [](std::string_view text) { return python_json(text).value_or("-"); };
  CHECK(as_json("'a'") == R"("a")");
  CHECK(as_json(R"("""a "b" c""")") == R"("a \"b\" c")");
  CHECK(as_json(R"('\x41\u00e9\n\'\q')") == "\"A\xc3\xa9\\n'\\\\q\"");
  CHECK(as_json("1_000") == "1000");
  CHECK(as_json("-.5") == "-0.5");
  CHECK(as_json("1.") == "1.0");
  CHECK(as_json("[1, (2, 3,), {}]") == "[1, [2, 3], {}]");
  CHECK(as_json("{'a': None, \"b\": [True, False]}") == R"({"a": null, "b": [true, false]})");
  for (const char* bad : {"", "Paris", "f()", "[1", "{1: 2}", "'a", "1 2", "[1 2]", "{'a' 1}", "0x10", "None1"}) CHECK(as_json(bad) == "-");
  CHECK(as_json(std::string(1000, '[')) == "-");
}
