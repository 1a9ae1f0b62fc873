// The parser of a format: which tags each family has. Sources: the families' chat templates. See output_format.h.
#include "server/output/harmony_parser.h"
#include "server/output/json_calls.h"
#include "server/output/output_format.h"
#include "server/output/python_calls.h"
#include "server/output/tagged_calls.h"
#include "server/output/tags.h"
#include "server/output/think_parser.h"
#include "server/output/value_text.h"

namespace slipstream::output {
namespace {

using Marks = std::vector<std::string>;

JsonCallSyntax hermes(const Marks& marks) {
  JsonCallSyntax s;
  s.open = tag_text("<tool_call>", marks);
  s.close = tag_text("</tool_call>", marks);
  s.object = true;
  return s;
}

JsonCallSyntax llama(const Marks& marks) {
  JsonCallSyntax s;
  s.open = tag_text("<|python_tag|>", marks);
  s.object = s.bare = s.declared_only = true;
  return s;
}

JsonCallSyntax mistral(const Marks& marks) {
  JsonCallSyntax s;
  s.open = tag_text("[TOOL_CALLS]", marks);
  s.separator = tag_text("[ARGS]", marks);
  s.id_tag = tag_text("[CALL_ID]", marks);
  s.object = s.named = true;
  return s;
}

JsonCallSyntax deepseek(const Marks& marks) {
  JsonCallSyntax s;
  s.section = tag_text("<｜tool▁calls▁begin｜>", marks);
  s.section_end = tag_text("<｜tool▁calls▁end｜>", marks);
  s.open = tag_text("<｜tool▁call▁begin｜>", marks);
  s.close = tag_text("<｜tool▁call▁end｜>", marks);
  s.separator = tag_text("<｜tool▁sep｜>", marks);
  s.named = true;
  return s;
}

TagCallSyntax xml(const Marks& marks) {
  TagCallSyntax s;
  s.section = tag_text("<tool_call>", marks);
  s.section_end = tag_text("</tool_call>", marks);
  s.open = "<function=";
  s.open_end = s.key_end = ">";
  s.close = "</function>";
  s.key = "<parameter=";
  s.value_end = "</parameter>";
  s.padded = s.section_optional = true;
  return s;
}

TagCallSyntax glm(const Marks& marks) {
  TagCallSyntax s;
  s.section = tag_text("<tool_call>", marks);
  s.close = tag_text("</tool_call>", marks);
  s.key = tag_text("<arg_key>", marks);
  s.key_end = tag_text("</arg_key>", marks);
  s.value = tag_text("<arg_value>", marks);
  s.value_end = tag_text("</arg_value>", marks);
  return s;
}

TagCallSyntax dsml(const std::string& section) {
  TagCallSyntax s;
  s.section = "<｜DSML｜" + section + ">";
  s.section_end = "</｜DSML｜" + section + ">";
  s.open = "<｜DSML｜invoke name=\"";
  s.open_end = "\">";
  s.close = "</｜DSML｜invoke>";
  s.key = "<｜DSML｜parameter name=\"";
  s.key_end = "\"";
  s.value_end = "</｜DSML｜parameter>";
  s.typed = true;
  return s;
}

std::unique_ptr<CallReader> make_reader(const OutputFormat& format, PartSink* sink, const std::shared_ptr<const ToolSet>& tools) {
  const Marks& marks = format.marks;
  switch (format.calls) {
    case CallFormat::kHermes: return std::make_unique<JsonCalls>(sink, tools, hermes(marks));
    case CallFormat::kLlama: return std::make_unique<JsonCalls>(sink, tools, llama(marks));
    case CallFormat::kMistral: return std::make_unique<JsonCalls>(sink, tools, mistral(marks));
    case CallFormat::kDeepSeek: return std::make_unique<JsonCalls>(sink, tools, deepseek(marks));
    case CallFormat::kXml: return std::make_unique<TagCalls>(sink, tools, xml(marks));
    case CallFormat::kGlm: return std::make_unique<TagCalls>(sink, tools, glm(marks));
    case CallFormat::kDsml: return std::make_unique<TagCalls>(sink, tools, dsml(format.dsml_section));
    case CallFormat::kPython: return std::make_unique<PythonCalls>(sink, tools, PythonCallSyntax());
    case CallFormat::kLfm:
      return std::make_unique<PythonCalls>(
          sink, tools, PythonCallSyntax{tag_text("<|tool_call_start|>", marks), tag_text("<|tool_call_end|>", marks)});
    case CallFormat::kNone:
    case CallFormat::kHarmony: break;
  }
  return nullptr;
}

}  // namespace

ThinkTexts think_texts(const OutputFormat& format) {
  if (format.think == ThinkFormat::kTags) return {"<think>", "</think>"};
  if (format.think == ThinkFormat::kMistral) return {"[THINK]", "[/THINK]"};
  return {};
}

bool begins_inside_thoughts(const OutputFormat& format, const ParserOptions& options) {
  const ThinkTexts tags = think_texts(format);
  if (tags.open.empty()) return false;
  const std::string_view text = trimmed(options.prompt_tail);
  if (text.ends_with(tags.open)) return true;
  if (!options.continues_message) return false;
  const size_t opened = text.rfind(tags.open), closed = text.rfind(tags.close);
  return opened != std::string_view::npos && (closed == std::string_view::npos || closed < opened);
}

std::unique_ptr<api::OutputParser> make_parser(const OutputFormat& format, const ParserOptions& options) {
  const bool harmony = format.think == ThinkFormat::kHarmony;
  const bool thinks = options.split_reasoning && !harmony && format.think != ThinkFormat::kNone;
  const bool calls = options.tools && format.calls != CallFormat::kNone;
  if (!harmony && !thinks && !calls) return nullptr;
  SinkOptions sink_options;
  sink_options.marks = format.marks;
  sink_options.show_marks = !options.skip_special;
  sink_options.calls = calls;
  sink_options.single_call = options.single_call;
  sink_options.call_id = options.call_id;
  auto sink = std::make_unique<PartSink>(std::move(sink_options));
  if (harmony) {
    const size_t start = options.prompt_tail.rfind("<|start|>");
    return std::make_unique<HarmonyParser>(std::move(sink), format.marks, calls, options.split_reasoning, !options.skip_special,
                                           std::string_view(options.prompt_tail).substr(std::min(start, options.prompt_tail.size())));
  }
  auto reader = calls ? make_reader(format, sink.get(), options.tools) : nullptr;
  ThinkTags tags;
  if (thinks) {
    const ThinkTexts texts = think_texts(format);
    tags = {tag_text(texts.open, format.marks), tag_text(texts.close, format.marks), false};
    tags.marks = tags.open[0] == kMark && tags.close[0] == kMark;
  }
  const bool inside = thinks && begins_inside_thoughts(format, options);
  return std::make_unique<ThinkParser>(std::move(tags), inside, std::move(sink), std::move(reader), format.marks, !options.skip_special);
}

}  // namespace slipstream::output
