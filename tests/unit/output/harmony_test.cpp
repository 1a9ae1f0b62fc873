// gpt-oss: messages with channels, as its chat template and the format's description write them.
#include "tests/catch.h"
#include "tests/unit/output/reading.h"

using namespace slipstream;
using namespace slipstream::test;
using output::CallFormat;
using output::ThinkFormat;

namespace {

const std::vector<std::string> kMarks = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};

Setting harmony(bool special = true, bool tools = true) {
  return {format_of(ThinkFormat::kHarmony, CallFormat::kHarmony, special ? kMarks : std::vector<std::string>{}),
          tools ? example_tools() : nullptr, "<|start|>user<|message|>Hi<|end|><|start|>assistant"};
}

}  // namespace

TEST_CASE("harmony: analysis is reasoning, final is content") {
  for (const bool special : {true, false}) {
    const Reading r = read(harmony(special), "<|channel|>analysis<|message|>Two and two.<|end|><|start|>assistant<|channel|>final<|message|>Four.");
    CHECK(r.reasoning == "Two and two.");
    CHECK(r.content == "Four.");
    CHECK(r.calls.empty());
  }
}

TEST_CASE("harmony: calls, with the recipient in the channel or in the role") {
  const std::string thought = "<|channel|>analysis<|message|>I look.<|end|>";
  const Reading in_channel = read(harmony(), thought + "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Paris\"}<|call|>");
  const Reading in_role = read(harmony(), thought + "<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"Paris\"}");
  CHECK(in_channel.calls == std::vector<ReadCall>{{"weather", R"({"city": "Paris"})", ""}});
  CHECK(in_role.calls == in_channel.calls);
  CHECK(in_channel.reasoning == "I look.");
  CHECK(in_channel.content.empty());
}

TEST_CASE("harmony: commentary to nobody is content, to a tool that is not ours reasoning") {
  const Reading r = read(harmony(), "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>");
  CHECK(r.content == "I look it up.");
  CHECK(r.calls == std::vector<ReadCall>{{"now", "{}", ""}});
  CHECK(read(harmony(), "<|channel|>analysis to=python<|message|>print(1)").reasoning == "print(1)");
}

TEST_CASE("harmony: without tools a call is content") {
  const Reading r = read(harmony(true, false), "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}");
  CHECK(r.calls.empty());
  CHECK(r.content == "{}");
}

TEST_CASE("harmony: text without a header is content") {
  CHECK(read(harmony(), "Four.").content == "Four.");
  CHECK(read(harmony(), "Four.\nOr so, <b>I</b> think.").content == "Four.\nOr so, <b>I</b> think.");
}

TEST_CASE("harmony: cut off") {
  CHECK(read(harmony(), "<|channel|>analysis<|message|>Two and").reasoning == "Two and");
  CHECK(read(harmony(), "<|channel|>analysis<|message|>Two and").ends_reasoning);
  CHECK(read(harmony(), "<|channel|>ana").content.empty());
  const Reading r = read(harmony(), "<|channel|>commentary to=functions.weather<|message|>{\"city\": \"Par");
  CHECK(r.calls == std::vector<ReadCall>{{"weather", "{\"city\": \"Par", ""}});
}

TEST_CASE("harmony: the prompt's last message goes on") {
  Setting setting = harmony();
  setting.prompt_tail += "<|channel|>final<|message|>Four";
  const Reading r = read(setting, ", I think.");
  CHECK(r.content == ", I think.");
  CHECK(r.reasoning.empty());
}

TEST_CASE("harmony: special tokens never show, unless asked for") {
  const std::string text = "<|channel|>final<|message|>Fo<|constrain|>ur.<|end|>";
  CHECK(read(harmony(), text).content == "Four.");
  Setting setting = harmony();
  setting.skip_special = false;
  CHECK(read(setting, text).content == "Fo<|constrain|>ur.");
}

TEST_CASE("harmony: unsplit thoughts are content") {
  Setting setting = harmony();
  setting.split_reasoning = false;
  const Reading r = read(setting, "<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>final<|message|>Four.");
  CHECK(r.reasoning.empty());
  CHECK(r.content == "Two.Four.");
}
