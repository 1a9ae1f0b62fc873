// Renders chat templates from the command line: one JSON case a line on stdin, one JSON result a line on stdout. The
// tests compare it with jinja2; it is also handy for looking at what a template makes of a conversation.
//
// Case: {"template", "messages", "tools", "extra", "add_generation_prompt", "bos_token", "eos_token", "now",
//        "steps", "depth", "output_bytes"}; all but the template may be left out.
// Result: {"text", "segments": [[text, trusted], …]} or {"error", "code", "stage": "compile" or "render"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/text/chat_template.h"

namespace {

using nlohmann::ordered_json;
using slipstream::ErrorCode;

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kCorrupt: return "corrupt";
    default: return "internal";
  }
}

ordered_json error_result(const slipstream::Error& error, const char* stage) {
  return {{"error", error.message}, {"code", code_name(error.code)}, {"stage", stage}};
}

ordered_json run(const ordered_json& task) {
  slipstream::RenderLimits limits;
  limits.steps = task.value("steps", limits.steps);
  limits.depth = task.value("depth", limits.depth);
  limits.output_bytes = task.value("output_bytes", limits.output_bytes);
  const auto compiled = slipstream::ChatTemplate::compile(task.at("template").get<std::string>(),
                                                          task.value("bos_token", std::string()),
                                                          task.value("eos_token", std::string()), limits);
  if (!compiled.ok()) return error_result(compiled.error(), "compile");
  slipstream::RenderInput input;
  input.messages = task.value("messages", ordered_json::array());
  input.tools = task.value("tools", ordered_json());
  input.extra = task.value("extra", ordered_json::object());
  input.add_generation_prompt = task.value("add_generation_prompt", true);
  input.now_unix_seconds = task.value("now", int64_t{0});
  const auto segments = (*compiled)->render(input);
  if (!segments.ok()) return error_result(segments.error(), "render");
  ordered_json result = {{"text", slipstream::joined_text(*segments)}, {"segments", ordered_json::array()}};
  for (const auto& segment : *segments)
    result["segments"].push_back(ordered_json::array({segment.text, segment.trusted}));
  return result;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const ordered_json task = ordered_json::parse(line, nullptr, false);
    ordered_json result;
    if (task.is_discarded() || !task.is_object() || !task.contains("template"))
      result = {{"error", "the line is no JSON case with a template"}, {"code", "invalid_argument"}, {"stage", "read"}};
    else
      result = run(task);
    std::cout << result.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n' << std::flush;
  }
  return 0;
}
