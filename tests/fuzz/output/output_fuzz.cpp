// Any text through any family's parser: nothing throws, calls come in order, and every cut of the text reads the same. The first
// four bytes choose format and options, the fifth how the text is cut.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/base/utf8.h"
#include "server/output/output_format.h"

using namespace slipstream;
using namespace slipstream::output;

namespace {

const nlohmann::ordered_json kTools = nlohmann::ordered_json::parse(R"([
  {"type": "function", "function": {"name": "f", "parameters": {"properties": {
    "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["string", "null"]}, "d": {"type": "object"}, "e": {}}}}},
  {"type": "function", "function": {"name": "g", "parameters": {"properties": {}}}}])");

struct Reading {
  std::string text[2];                // of content and of thoughts
  std::vector<std::string> calls;     // name and arguments
  bool operator==(const Reading&) const = default;
};

void take(const std::vector<api::AnswerPart>& parts, Reading* out) {
  for (const api::AnswerPart& part : parts) {
    if (part.kind == api::PartKind::kContent || part.kind == api::PartKind::kReasoning) {
      out->text[part.kind == api::PartKind::kReasoning] += part.text;
      continue;
    }
    if (part.kind == api::PartKind::kCallStart) out->calls.push_back(part.text + "\n");
    if (part.call + 1 != static_cast<int32_t>(out->calls.size())) std::abort();
    if (part.kind == api::PartKind::kCallArguments) out->calls.back() += part.text;
  }
}

Reading read(const OutputFormat& format, const ParserOptions& options, std::string_view text, size_t piece) {
  Reading out;
  const auto parser = make_parser(format, options);
  if (!parser) return out;
  std::vector<api::AnswerPart> parts;
  while (!text.empty()) {
    // a special token comes whole
    const std::string* mark = nullptr;
    size_t next = text.size();
    for (const std::string& candidate : format.marks) {
      const size_t found = text.find(candidate);
      if (found < next) next = found;
      if (found == 0) mark = &candidate;
    }
    size_t length = mark ? mark->size() : std::min(next, piece);
    while (length < text.size() && (text[length] & 0xc0) == 0x80) ++length;  // characters come whole
    parser->push(text.substr(0, length), mark != nullptr, &parts);
    text.remove_prefix(length);
  }
  parser->finish(&parts);
  take(parts, &out);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) return 0;
  OutputFormat format;
  format.calls = static_cast<CallFormat>(data[0] % 11);
  format.think = format.calls == CallFormat::kHarmony ? ThinkFormat::kHarmony : static_cast<ThinkFormat>(data[1] % 3);
  format.dsml_section = "function_calls";
  if (data[2] & 1) format.marks = {"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[THINK]", "[/THINK]", "<|channel|>", "<|message|>", "<|end|>"};
  ParserOptions options;
  static const auto tools = std::make_shared<const ToolSet>(kTools);
  if (!(data[3] & 1)) options.tools = tools;
  options.split_reasoning = !(data[3] & 2);
  options.single_call = data[3] & 4;
  options.skip_special = !(data[3] & 8);
  if (data[3] & 16) options.prompt_tail = "<|start|>assistant";
  if (data[3] & 32) options.prompt_tail = "<think>\n";
  const std::string_view text(reinterpret_cast<const char*>(data) + 5, size - 5);
  if (!is_valid_utf8(text)) return 0;  // a detokenizer gives nothing else
  if (!(read(format, options, text, text.size() + 1) == read(format, options, text, 1 + data[4] % 16))) std::abort();
  return 0;
}
