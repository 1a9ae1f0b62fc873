// Where thinking begins and ends. Texts are what Qwen 3, DeepSeek R1, GLM and Ministral write by their chat templates.
#include "tests/catch.h"
#include "tests/unit/output/reading.h"

using namespace slipstream;
using namespace slipstream::test;
using output::CallFormat;
using output::ThinkFormat;

namespace {

Setting tags(std::string prompt_tail = "<|im_start|>assistant\n") {
  return {format_of(ThinkFormat::kTags, CallFormat::kNone), nullptr, std::move(prompt_tail)};
}
Setting with_calls(std::string prompt_tail) {
  return {format_of(ThinkFormat::kTags, CallFormat::kXml), example_tools(), std::move(prompt_tail)};
}

constexpr const char* kOpened = "<|im_start|>assistant\n<think>\n";
constexpr const char* kClosed = "<|im_start|>assistant\n<think>\n\n</think>\n\n";

}  // namespace

TEST_CASE("thoughts that the model opens itself") {
  const Reading r = read(tags(), "<think>\nTwo and two.\n</think>\n\nFour.\n");
  CHECK(r.reasoning == "Two and two.");
  CHECK(r.content == "Four.\n");
}

TEST_CASE("thoughts that the prompt has opened") {
  const Reading r = read(tags(kOpened), "Two\n\nand two.\n</think>\n\nFour.");
  CHECK(r.reasoning == "Two\n\nand two.");
  CHECK(r.content == "Four.");
}

TEST_CASE("thoughts that the prompt has opened, and the model opens again") {
  const Reading r = read(tags(kOpened), "<think>\nTwo.\n</think>\n\nFour.");
  CHECK(r.reasoning == "Two.");
  CHECK(r.content == "Four.");
}

TEST_CASE("thoughts that the prompt has closed") {
  CHECK(read(tags(kClosed), "Four.").content == "Four.");
  CHECK(read(tags(kClosed), "Four.").reasoning.empty());
  // a model may close them once more
  const Reading again = read(tags(kClosed), "\n</think>\n\nFour.");
  CHECK(again.content == "Four.");
  CHECK(again.reasoning.empty());
}

TEST_CASE("cut off inside the thoughts") {
  const Reading r = read(tags(kOpened), "Two and\n");
  CHECK(r.reasoning == "Two and");
  CHECK(r.content.empty());
  CHECK(r.ends_reasoning);
  CHECK(read(tags(kOpened), "Two </thi").reasoning == "Two </thi");
}

TEST_CASE("an answer without thoughts keeps every byte") {
  const std::string text = "\n  Four </think> and <think> are tags.\n\n";
  const Reading r = read(tags(), text);
  CHECK(r.content == text);
  CHECK(r.reasoning.empty());
  CHECK_FALSE(r.ends_reasoning);
}

TEST_CASE("the opening tag in the middle of thoughts and the closing one in the middle of an answer are text") {
  const Reading r = read(tags(kOpened), "A <think> tag.\n</think>\n\nIt ends with </think>, see?");
  CHECK(r.reasoning == "A <think> tag.");
  CHECK(r.content == "It ends with </think>, see?");
}

TEST_CASE("an indented answer behind thoughts keeps its indent") {
  CHECK(read(tags(kOpened), "So.</think>\n\n    int x;\n").content == "    int x;\n");
}

TEST_CASE("nothing is held back but what may be a tag") {
  CHECK(read_unfinished(tags(), "Fou").content == "Fou");
  CHECK(read_unfinished(tags(kOpened), "Two a").reasoning == "Two a");
  CHECK(read_unfinished(tags(kOpened), "Two </th").reasoning == "Two");
  CHECK(read_unfinished(tags(kOpened), "Two </tha").reasoning == "Two </tha");
}

TEST_CASE("a continued message goes on inside its thoughts") {
  Setting setting = tags("<|im_start|>assistant\n<think>\nTwo and");
  setting.continues_message = true;
  CHECK(read(setting, " two.</think>Four.").reasoning == "two.");
  setting.prompt_tail = "<|im_start|>assistant\n<think>\nTwo and two.\n</think>\n\nFour";
  CHECK(read(setting, " it is.").content == " it is.");
}

TEST_CASE("unsplit thoughts stay where they are") {
  Setting setting = with_calls(kOpened);
  setting.split_reasoning = false;
  const Reading r = read(setting, "Two.\n</think>\n\nFour.");
  CHECK(r.reasoning.empty());
  CHECK(r.content == "Two.\n</think>\n\nFour.");
}

TEST_CASE("a call ends thoughts that were never closed") {
  const Reading r = read(with_calls(kOpened), "I must look.\n<tool_call>\n<function=now>\n</function>\n</tool_call>");
  CHECK(r.reasoning == "I must look.");
  CHECK(r.content.empty());
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].name == "now");
  CHECK(r.calls[0].arguments == "{}");
}

TEST_CASE("a call's tag that is only mentioned in thoughts does not end them") {
  const Reading r = read(with_calls(kOpened), "I could use <tool_call> here, or <function=now> even.\n</think>\n\nNo.");
  CHECK(r.reasoning == "I could use <tool_call> here, or <function=now> even.");
  CHECK(r.content == "No.");
  CHECK(r.calls.empty());
}

TEST_CASE("the closing tag of thoughts inside a call's value is part of the value") {
  const Reading r = read(with_calls(kOpened),
                         "Go.\n</think>\n\n<tool_call>\n<function=write>\n<parameter=text>\na </think> b\n</parameter>\n</function>\n</tool_call>");
  REQUIRE(r.calls.size() == 1);
  CHECK(r.calls[0].arguments == R"({"text": "a </think> b"})");
  CHECK(r.content.empty());
}

TEST_CASE("blanks between thoughts and a call are not content") {
  const Reading r = read(with_calls(kOpened), "Go.\n</think>\n\n \n<tool_call>\n<function=now>\n</function>\n</tool_call>\n");
  CHECK(r.content.empty());
  CHECK(r.calls.size() == 1);
}

TEST_CASE("tags that are special tokens mean what they say wherever they stand") {
  const Setting setting{format_of(ThinkFormat::kMistral, CallFormat::kNone, {"[THINK]", "[/THINK]"}), nullptr, "[/INST]"};
  const Reading r = read(setting, "[THINK]Two.[/THINK]Four.[THINK]Or five.[/THINK] Four.");
  CHECK(r.reasoning == "Two.Or five.");
  CHECK(r.content == "Four. Four.");
}

TEST_CASE("special tokens that mean nothing here are dropped, or shown") {
  Setting setting = tags(kOpened);
  CHECK(read(setting, "Two.<|pad|></think>Fo<|pad|>ur.", {"<|pad|>"}).content == "Four.");
  setting.skip_special = false;
  CHECK(read(setting, "Two.<|pad|></think>Fo<|pad|>ur.", {"<|pad|>"}).content == "Fo<|pad|>ur.");
  CHECK(read(setting, "Two.<|pad|></think>Fo<|pad|>ur.", {"<|pad|>"}).reasoning == "Two.<|pad|>");
}
