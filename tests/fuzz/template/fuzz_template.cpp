// Any bytes as a template over a fixed conversation: no crash, no leak, no hang, and output only within its limits.
#include <nlohmann/json.hpp>

#include "engine/text/chat_template.h"
#include "kernels/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const slipstream::RenderInput input = [] {
    slipstream::RenderInput made;
    made.messages = nlohmann::ordered_json::parse(
        R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> ü 😀\n"},
            {"role": "assistant", "content": "<think>x</think>\n\nHello", "tool_calls": [{"id": "1", "function":
            {"name": "f", "arguments": {"a": 1, "b": [null, true, 1.5, "s"]}}}]}])");
    made.tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
    made.extra = nlohmann::ordered_json::parse(R"({"n": 7, "f": 2.5, "s": "Hello", "l": [3, 1, 2], "d": {"b": 1}})");
    return made;
  }();
  slipstream::RenderLimits limits;
  limits.steps = 20'000;
  limits.depth = 50;
  limits.output_bytes = 1 << 16;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto compiled = slipstream::ChatTemplate::compile(source, "<s>", "</s>", limits);
  if (!compiled.ok()) return 0;
  const auto segments = (*compiled)->render(input);
  if (!segments.ok()) return 0;
  CHECK(slipstream::joined_text(*segments).size() <= (1 << 16), "output over its limit");
  return 0;
}
