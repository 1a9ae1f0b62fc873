// Calls written as JSON. Texts are what the chat templates of Qwen 2.5 and 3, Hermes, Llama 3.1, Mistral Nemo, Mistral Small 3.2,
// Devstral, DeepSeek R1 and V3.1 make of a call.
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

const std::vector<ReadCall> kTwo = {{"weather", R"({"city": "Paris", "days": 2})", ""}, {"now", "{}", ""}};

}  // namespace

TEST_CASE("Hermes: calls, with text before them") {
  const Reading r = read(of(CallFormat::kHermes),
                         "Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}\n</tool_call>\n"
                         "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>");
  CHECK(r.content == "Let me look.");
  CHECK(r.calls == kTwo);
  CHECK(r.calls[0].id == "call_x");
}

TEST_CASE("Hermes: arguments in any order, missing, null, in quotes") {
  const auto one = [](const std::string& object) { return read(of(CallFormat::kHermes), "<tool_call>" + object + "</tool_call>").calls; };
  CHECK(one(R"({"arguments": {"city": "Paris", "days": 2}, "name": "weather"})") == std::vector<ReadCall>{kTwo[0]});
  CHECK(one(R"({"name": "now"})") == std::vector<ReadCall>{kTwo[1]});
  CHECK(one(R"({"name": "now", "arguments": null})") == std::vector<ReadCall>{kTwo[1]});
  CHECK(one(R"({"name": "weather", "arguments": "{\"city\": \"Paris\", \"days\": 2}"})") == std::vector<ReadCall>{kTwo[0]});
  CHECK(one(R"({"type": "function", "name": "now", "id": 7, "parameters": {}})") == std::vector<ReadCall>{kTwo[1]});
  CHECK(one(R"({"name": "now", "arguments": {}, "note": "x"})") == std::vector<ReadCall>{kTwo[1]});
  CHECK(one(R"([{"name": "weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "now", "arguments": {}}])") == kTwo);
}

TEST_CASE("Hermes: a function that was not offered is called all the same") {
  const Reading r = read(of(CallFormat::kHermes), R"(<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>)");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].name == "delete_all");
}

TEST_CASE("Hermes: tags in prose and in values") {
  const std::string prose = "Wrap it in <tool_call> and </tool_call>, like <tool_call>this</tool_call> or <tool_call>\n{\"a\": 1}.";
  CHECK(read(of(CallFormat::kHermes), prose).content == prose);
  CHECK(read(of(CallFormat::kHermes), prose).calls.empty());
  CHECK(read_unfinished(of(CallFormat::kHermes), "Use <tool_call> h").content == "Use <tool_call> h");
  CHECK(read_unfinished(of(CallFormat::kHermes), "Use <tool_ca").content == "Use");
  const Reading r = read(of(CallFormat::kHermes),
                         R"(<tool_call>{"name": "write", "arguments": {"text": "</tool_call> \" } <tool_call>"}}</tool_call> Done.)");
  REQUIRE(r.calls.size() == 1);
  CHECK(json::parse(r.calls[0].arguments)["text"] == "</tool_call> \" } <tool_call>");
  CHECK(r.content == "Done.");
}

TEST_CASE("Hermes: raw line ends inside a string are escaped") {
  const Reading r = read(of(CallFormat::kHermes), "<tool_call>{\"name\": \"write\", \"arguments\": {\"text\": \"a\n\tb\"}}</tool_call>");
  REQUIRE(r.calls.size() == 1);
  CHECK(json::parse(r.calls[0].arguments)["text"] == "a\n\tb");
}

TEST_CASE("Hermes: arguments stream as they come, the name first") {
  const Setting setting = of(CallFormat::kHermes);
  CHECK(read_unfinished(setting, "<tool_call>\n{\"name\": \"weat").calls.empty());
  Reading r = read_unfinished(setting, "<tool_call>\n{\"name\": \"weather\"");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].name == "weather");
  CHECK(r.calls[0].arguments.empty());
  r = read_unfinished(setting, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par");
  CHECK(r.calls[0].arguments == "{\"city\": \"Par");
}

TEST_CASE("Hermes: cut off") {
  const Setting setting = of(CallFormat::kHermes);
  Reading r = read(setting, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].arguments == "{\"city\": \"Par");
  CHECK(r.content.empty());
  // not certain: the text stays text
  CHECK(read(setting, "<tool_call>\n{\"na").content == "<tool_call>\n{\"na");
  // the closing brace of the whole is missing
  r = read(setting, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}\n</tool_call>\n<tool_call>{\"name\": \"now\"}</tool_call>");
  CHECK(r.calls == kTwo);
  // a value that never ends, then the closing tag
  r = read(setting, "<tool_call>{\"name\": \"weather\", \"arguments\": {\"days\": [1, 2</tool_call> So.");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].arguments == "{\"days\": [1, 2");
  CHECK(r.content == "So.");
}

TEST_CASE("Hermes: only one call") {
  Setting setting = of(CallFormat::kHermes);
  setting.single_call = true;
  const Reading r = read(setting, "A\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"now\"}</tool_call> B");
  CHECK(r.calls.size() == 1);
  CHECK(r.content == "A");
  CHECK(r.done);
  CHECK_FALSE(read(setting, "<tool_call>{\"name\": \"now\", \"arguments\": {").done);
}

TEST_CASE("Hermes: tags that are special tokens never match text that spells them") {
  const Setting setting = of(CallFormat::kHermes, {"<tool_call>", "</tool_call>"});
  const Reading r = read(setting, "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>");
  CHECK(r.calls.size() == 1);
  Setting spelled = of(CallFormat::kHermes, {"<tool_call>", "</tool_call>"});
  const auto parser_text = std::string("<tool") + "_call>{\"name\": \"now\"}";
  std::vector<api::AnswerPart> parts;
  output::ParserOptions options;
  options.tools = std::make_shared<const output::ToolSet>(example_tools());
  const auto parser = output::make_parser(spelled.format, options);
  parser->push(parser_text, false, &parts);
  parser->finish(&parts);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].text == parser_text);
}

TEST_CASE("Llama 3: a bare object, with and without its special token") {
  const std::string call = R"({"name": "weather", "parameters": {"city": "Paris", "days": 2}})";
  CHECK(read(of(CallFormat::kLlama), call).calls == std::vector<ReadCall>{kTwo[0]});
  CHECK(read(of(CallFormat::kLlama), "\n" + call + "; {\"name\": \"now\", \"parameters\": {}}").calls == kTwo);
  CHECK(read(of(CallFormat::kLlama, {"<|python_tag|>"}), "<|python_tag|>" + call).calls == std::vector<ReadCall>{kTwo[0]});
  CHECK(read(of(CallFormat::kLlama), R"({"type": "function", "name": "now", "parameters": {}})").calls == std::vector<ReadCall>{kTwo[1]});
}

TEST_CASE("Llama 3: an answer in JSON is an answer") {
  for (const std::string text : {R"({"city": "Paris"})", R"({"name": "Ada", "parameters": {}})", R"({"name": 5})", R"([1, 2])",
                                 R"(Call {"name": "now", "parameters": {}})", "{", "{}", R"({"type": "x"})"}) {
    CHECK(read(of(CallFormat::kLlama), text).content == text);
    CHECK(read(of(CallFormat::kLlama), text).calls.empty());
  }
  CHECK(read_unfinished(of(CallFormat::kLlama), R"({"city":)").content == R"({"city":)");
}

TEST_CASE("Mistral: the list of objects") {
  const std::string text = R"([TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris", "days": 2}, "id": "abc123xyz"}, )"
                           R"({"name": "now", "arguments": {}, "id": "abc123xy2"}])";
  CHECK(read(of(CallFormat::kMistral), text).calls == kTwo);
  CHECK(read(of(CallFormat::kMistral), text).content.empty());
  CHECK(read(of(CallFormat::kMistral), text + " Done.").content == "Done.");
  CHECK(read(of(CallFormat::kMistral, {"[TOOL_CALLS]"}), text).calls == kTwo);
}

TEST_CASE("Mistral: names, ids and arguments") {
  for (const std::vector<std::string>& marks : {std::vector<std::string>{}, {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}}) {
    CHECK(read(of(CallFormat::kMistral, marks), R"(One moment.[TOOL_CALLS]weather[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]now[ARGS]{})").calls == kTwo);
    CHECK(read(of(CallFormat::kMistral, marks), R"([TOOL_CALLS]weather[CALL_ID]abc123xyz[ARGS]{"city": "Paris", "days": 2})").calls ==
          std::vector<ReadCall>{kTwo[0]});
    CHECK(read(of(CallFormat::kMistral, marks), R"([TOOL_CALLS]weather{"city": "Paris", "days": 2})").calls == std::vector<ReadCall>{kTwo[0]});
  }
  CHECK(read(of(CallFormat::kMistral), "I write [TOOL_CALLS] and then a list").content == "I write [TOOL_CALLS] and then a list");
}

TEST_CASE("DeepSeek R1 and V3: kind, name and fenced arguments") {
  const std::string text =
      "Let me look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Paris\", \"days\": 2}\n```"
      "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  const Reading r = read(of(CallFormat::kDeepSeek), text);
  CHECK(r.calls == kTwo);
  CHECK(r.content == "Let me look.");
  CHECK(read(of(CallFormat::kDeepSeek, {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                        "<｜tool▁sep｜>"}), text).calls == kTwo);
}

TEST_CASE("DeepSeek V3.1: name and arguments") {
  const std::string text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Paris\", \"days\": 2}<｜tool▁call▁end｜>"
                           "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  CHECK(read(of(CallFormat::kDeepSeek), text).calls == kTwo);
  const std::string none = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜><｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  CHECK(read(of(CallFormat::kDeepSeek), none).calls == std::vector<ReadCall>{kTwo[1]});
}
