// Calls written as a Python list: Llama 3.2 and 4, LFM2.
#include "tests/catch.h"
#include "tests/unit/output/reading.h"

using namespace slipstream;
using namespace slipstream::test;
using nlohmann::json;
using output::CallFormat;
using output::ThinkFormat;

namespace {

Setting of(CallFormat format, std::vector<std::string> marks = {}) {
  return {format_of(ThinkFormat::kNone, format, std::move(marks)), example_tools(), ""};
}

}  // namespace

TEST_CASE("a list of calls") {
  const Reading r = read(of(CallFormat::kPython), "[weather(city=\"Paris\", days=2, exact=True), now()]");
  CHECK(r.calls == std::vector<ReadCall>{{"weather", R"({"city": "Paris", "days": 2, "exact": true})", ""}, {"now", "{}", ""}});
  CHECK(r.content.empty());
}

TEST_CASE("values with brackets, quotes and commas") {
  const Reading r = read(of(CallFormat::kPython), R"([write(path='a, b)', text="say \"(hi]\"\n"), weather(ids=[1, (2)], opts={'a': {"b": None}})])");
  REQUIRE(r.calls.size() == 2);
  CHECK(json::parse(r.calls[0].arguments) == json::parse(R"j({"path": "a, b)", "text": "say \"(hi]\"\n"})j"));
  CHECK(json::parse(r.calls[1].arguments) == json::parse(R"({"ids": [1, [2]], "opts": {"a": {"b": null}}})"));
}

TEST_CASE("lists that are no calls are answers") {
  for (const std::string text : {"[1, 2, 3]", "[link](https://x.y)", "[delete_all()]", "[", "[now", "[now]", "See [now()]."}) {
    CHECK(read(of(CallFormat::kPython), text).content == text);
    CHECK(read(of(CallFormat::kPython), text).calls.empty());
  }
}

TEST_CASE("cut off, and broken") {
  Reading r = read(of(CallFormat::kPython), "[weather(city=\"Paris\", days=");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].arguments == R"({"city": "Paris")");
  r = read(of(CallFormat::kPython), "[weather(city=Paris)]");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].arguments == R"({"city": "Paris"})");
}

TEST_CASE("LFM2: between its tags, anywhere") {
  for (const std::vector<std::string>& marks : {std::vector<std::string>{}, {"<|tool_call_start|>", "<|tool_call_end|>"}}) {
    const Reading r = read(of(CallFormat::kLfm, marks), "I look.<|tool_call_start|>[now()]<|tool_call_end|>Done.");
    CHECK(r.calls == std::vector<ReadCall>{{"now", "{}", ""}});
    CHECK(r.content == "I look.Done.");
  }
}
