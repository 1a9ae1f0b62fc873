// Which format a model has: from its template's words, its vocabulary, or a flag.
#include "tests/catch.h"
#include "server/output/output_format.h"
#include "tests/unit/output/special_tokens.h"

using namespace slipstream;
using namespace slipstream::output;

namespace {

OutputFormat of(const std::string& source, std::vector<std::string> tokens = {}, const std::string& think = "auto", const std::string& calls = "auto") {
  const auto compiled = ChatTemplate::compile(source, "", "");
  REQUIRE(compiled.ok());
  return find_output_format(compiled->get(), SpecialTokens(std::move(tokens)), think, calls);
}

// the words that tell the families apart, as their templates use them
const std::string kTools = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}";

}  // namespace

TEST_CASE("formats by the words of the template") {
  CHECK(of(kTools + "<tool_call>").calls == CallFormat::kHermes);
  CHECK(of(kTools + "<tool_call>\n<function=f>\n<parameter=p>").calls == CallFormat::kXml);
  CHECK(of(kTools + "<tool_call>f<arg_key>k</arg_key>").calls == CallFormat::kGlm);
  CHECK(of(kTools + "[TOOL_CALLS]").calls == CallFormat::kMistral);
  CHECK(of(kTools + "<｜tool▁call▁begin｜>").calls == CallFormat::kDeepSeek);
  CHECK(of(kTools + "ipython {\"name\": n, \"parameters\": p}").calls == CallFormat::kLlama);
  CHECK(of(kTools + "<|channel|>final<|message|>").calls == CallFormat::kHarmony);
  CHECK(of(kTools + "<|channel|>final<|message|>").think == ThinkFormat::kHarmony);
  CHECK(of("{{ '</think>' }}").think == ThinkFormat::kTags);
  CHECK(of("[THINK]").think == ThinkFormat::kMistral);
  CHECK(of("plain").think == ThinkFormat::kNone);
}

TEST_CASE("whether the template shows tools is tried, not guessed") {
  CHECK(of(kTools + "<tool_call>").template_shows_tools);
  CHECK_FALSE(of("tools <tool_call>").template_shows_tools);
}

TEST_CASE("a template without a known form is asked in the server's own") {
  const OutputFormat format = of(kTools + "something of its own");
  CHECK(format.calls == CallFormat::kHermes);
  CHECK_FALSE(format.template_shows_tools);
}

TEST_CASE("thinking by the vocabulary, and tags that are special tokens") {
  CHECK(of("plain", {"<think>", "</think>"}).think == ThinkFormat::kTags);
  CHECK(of("plain", {"<think>", "x", "[ARGS]"}).marks == std::vector<std::string>{"<think>", "[ARGS]"});
}

TEST_CASE("flags win") {
  const OutputFormat format = of(kTools + "<tool_call></think>", {}, "none", "glm45");
  CHECK(format.think == ThinkFormat::kNone);
  CHECK(format.calls == CallFormat::kGlm);
  CHECK(format.calls_why == "--tool-call-parser");
  CHECK(of("plain", {}, "auto", "none").calls == CallFormat::kNone);
}

TEST_CASE("ids of calls") {
  CHECK(new_call_id(CallFormat::kHermes).starts_with("call_"));
  CHECK(new_call_id(CallFormat::kHermes).size() == 29);
  const std::string id = new_call_id(CallFormat::kMistral);
  CHECK(id.size() == 9);
  CHECK(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos);
  CHECK(id != new_call_id(CallFormat::kMistral));
}
