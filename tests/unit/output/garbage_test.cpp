// Any text through every parser: however it is cut it reads the same, nothing throws, and no text is lost. What may be missing of
// the content are tags, blanks at its borders, and what became a call.
#include <random>

#include "tests/catch.h"
#include "tests/unit/output/reading.h"

using namespace slipstream;
using namespace slipstream::test;
using output::CallFormat;
using output::ThinkFormat;

namespace {

const std::vector<std::string> kPieces = {
    "<tool_call>", "</tool_call>", "<function=weather>", "<function=", "</function>", "<parameter=city>", "<parameter=", "</parameter>", "\n",
    " ", "weather", "now", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "city", "{", "}", "[", "]", "\"", ":", ",", "\"name\"",
    "\"arguments\"", "\"parameters\"", "{\"name\": \"now\", \"arguments\": {}}", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "(", ")", "=", "'", ">",
    "<", "</", "\\", "null", "12", "true", "<think>", "</think>", "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "analysis", "final",
    "commentary", " to=functions.now", "assistant", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>", "```json\n", "<｜DSML｜function_calls>", "<｜DSML｜invoke name=\"now\">", "</｜DSML｜invoke>",
    "<｜DSML｜parameter name=\"city\"", " string=\"true\">", "</｜DSML｜parameter>", "grüße", "🌍", "<|python_tag|>", ";"};

std::string garbage(std::mt19937& random) {
  std::string out;
  const size_t count = 1 + random() % 24;
  for (size_t i = 0; i < count; ++i) out += kPieces[random() % kPieces.size()];
  return out;
}

}  // namespace

TEST_CASE("garbage through every parser") {
  std::mt19937 random(11);
  for (const CallFormat calls : {CallFormat::kNone, CallFormat::kHermes, CallFormat::kXml, CallFormat::kGlm, CallFormat::kLlama,
                                 CallFormat::kPython, CallFormat::kLfm, CallFormat::kMistral, CallFormat::kDeepSeek, CallFormat::kDsml,
                                 CallFormat::kHarmony}) {
    const ThinkFormat think = calls == CallFormat::kHarmony ? ThinkFormat::kHarmony : ThinkFormat::kTags;
    for (int i = 0; i < 120; ++i) {
      Setting setting{format_of(think, calls), example_tools(), i % 2 ? "<think>\n" : ""};
      setting.single_call = i % 5 == 0;
      if (i % 3 == 0) setting.format.marks = {"<tool_call>", "</tool_call>", "<|end|>", "<|channel|>", "[TOOL_CALLS]", "<｜tool▁sep｜>"};
      read(setting, garbage(random));
    }
  }
}

TEST_CASE("text without tags comes out whole") {
  std::mt19937 random(5);
  const std::string letters = "abc \n(){}[]\"',:;=\\/0123456789-_.|";
  for (const CallFormat calls : {CallFormat::kHermes, CallFormat::kXml, CallFormat::kGlm, CallFormat::kLlama, CallFormat::kPython,
                                 CallFormat::kLfm, CallFormat::kMistral, CallFormat::kDeepSeek, CallFormat::kDsml}) {
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (size_t n = 1 + random() % 80; n > 0; --n) text.push_back(letters[random() % letters.size()]);
      const Reading r = read({format_of(ThinkFormat::kTags, calls), example_tools(), ""}, text);
      CHECK(r.content == text);
      CHECK(r.reasoning.empty());
    }
  }
}

TEST_CASE("long texts take no longer per byte", "[time]") {
  const auto seconds = [](size_t bytes) {
    std::string text = "<tool_call>\n<function=write>\n<parameter=text>\n";
    while (text.size() < bytes) text += "</parameter> a\n\n<";
    const auto begin = std::chrono::steady_clock::now();
    read_unfinished({format_of(ThinkFormat::kTags, CallFormat::kXml), example_tools(), ""}, text);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double small = seconds(20'000);
  CHECK(seconds(200'000) < 40 * small + 0.5);
}
