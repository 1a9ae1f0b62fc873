// tools, tool_choice and the reasoning fields: what reaches the template, and what is refused by which name.
#include <nlohmann/json.hpp>

#include "server/api/request_schema.h"
#include "server/output/tool_prompt.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::api;

namespace {

Result<GenerationRequest> read(const char* more) {
  auto body = parse_body(std::string(R"({"messages": [{"role": "user", "content": "Hi"}], )") + more + "}");
  REQUIRE(body.ok());
  SchemaContext context;
  context.vocab = 100;
  return read_generation(*body, kChat, context);
}

constexpr const char* kTwo =
    R"("tools": [{"type": "function", "function": {"name": "a", "description": "A.", "parameters": {"type": "object"}, "strict": false}},
                 {"type": "function", "function": {"name": "b", "parameters": null}}])";

std::string with(const char* more) { return std::string(kTwo) + ", " + more; }

}  // namespace

TEST_CASE("tools as templates want them") {
  const auto request = read(kTwo);
  REQUIRE(request.ok());
  CHECK(request->tools == Json::parse(R"([
    {"type": "function", "function": {"name": "a", "description": "A.", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "b", "parameters": {"type": "object", "properties": {}}}}])"));
  CHECK(request->tool_choice == ToolChoice::kAuto);
  CHECK(request->parallel_tool_calls);
}

TEST_CASE("no tools") {
  for (const char* more : {R"("tools": [])", R"("tools": null, "tool_choice": null)", R"("tool_choice": "auto")"}) {
    const auto request = read(more);
    REQUIRE(request.ok());
    CHECK(request->tools.is_null());
  }
  const auto none = read(with(R"("tool_choice": "none")").c_str());
  REQUIRE(none.ok());
  CHECK(none->tools.is_null());
}

TEST_CASE("allowed tools are the ones that stay") {
  for (const char* choice : {R"("tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "b"}}]}})",
                             R"("tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "b"}]})"}) {
    const auto request = read(with(choice).c_str());
    REQUIRE(request.ok());
    REQUIRE(request->tools.size() == 1);
    CHECK(request->tools[0]["function"]["name"] == "b");
    CHECK(request->tool_choice == ToolChoice::kAuto);
  }
}

TEST_CASE("reasoning, in its several spellings") {
  CHECK(read(R"("reasoning_effort": "none")")->template_extra["enable_thinking"] == false);
  CHECK(read(R"("reasoning": {"effort": "low"})")->template_extra["reasoning_effort"] == "low");
  CHECK(read(R"("reasoning_effort": "high", "reasoning": {"effort": "low"})")->template_extra["reasoning_effort"] == "high");
  CHECK(read(R"("reasoning": {"enabled": false})")->template_extra["enable_thinking"] == false);
  CHECK_FALSE(read(R"("reasoning": {"exclude": true})")->show_reasoning);
  CHECK_FALSE(read(R"("reasoning_format": "none")")->split_reasoning);
  CHECK(read(R"("reasoning_format": "deepseek")")->split_reasoning);
  CHECK(read(R"("reasoning": {"max_tokens": null, "summary": "auto"})").ok());
}

TEST_CASE("tools as text, for templates without them") {
  const auto request = read(kTwo);
  REQUIRE(request.ok());
  const Json messages = Json::parse(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": {"x": 1}}},
                                                                {"id": "2", "type": "function", "function": {"name": "b", "arguments": "broken"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "tool_call_id": "2", "content": "two"},
    {"role": "assistant", "content": "Done."}])");
  CHECK(output::has_tool_turns(messages));
  const Json turned = output::with_tools_as_text(messages, request->tools, true);
  REQUIRE(turned.size() == 5);
  const auto system = turned[0]["content"].get<std::string>();
  CHECK(system.starts_with("Be brief.\n\n"));
  CHECK(system.find(R"({"name":"a","description":"A.","parameters":{"type":"object"}})") != std::string::npos);
  CHECK(turned[2]["content"] == "I look.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\":1}}\n</tool_call>\n"
                                "<tool_call>\n{\"name\": \"b\", \"arguments\": broken}\n</tool_call>");
  CHECK_FALSE(turned[2].contains("tool_calls"));
  CHECK(turned[3] == Json::parse(R"({"role": "user", "content": "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"})"));
  // without a system message one is made; where templates know no such role, the first message leads with it
  const Json user = Json::parse(R"([{"role": "user", "content": "Hi"}])");
  CHECK(output::with_tools_as_text(user, request->tools, true)[0]["role"] == "system");
  const Json joined = output::with_tools_as_text(user, request->tools, false);
  REQUIRE(joined.size() == 1);
  CHECK(joined[0]["content"].get<std::string>().ends_with("answer in plain words.\n\nHi"));
}
