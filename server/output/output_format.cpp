// See output_format.h.
#include "server/output/output_format.h"

#include <algorithm>
#include <random>

namespace slipstream::output {
namespace {

/// One way to recognise a format: all of these texts stand in the template.
template <typename Format>
struct Sign {
  Format format;
  std::vector<std::string_view> texts;
};

// Most particular first: several formats use <tool_call>.
const std::vector<Sign<CallFormat>>& call_signs() {
  static const std::vector<Sign<CallFormat>> signs = {
      {CallFormat::kHarmony, {"<|channel|>", "<|message|>"}},
      {CallFormat::kDsml, {"DSML"}},
      {CallFormat::kDeepSeek, {"<｜tool▁call▁begin｜>"}},
      {CallFormat::kGlm, {"<arg_key>", "<tool_call>"}},
      {CallFormat::kXml, {"<function=", "<parameter=", "<tool_call>"}},
      {CallFormat::kMistral, {"[TOOL_CALLS]"}},
      {CallFormat::kLfm, {"<|tool_call_start|>"}},
      {CallFormat::kHermes, {"<tool_call>"}},
      {CallFormat::kPython, {"func_name1(params_name1="}},
      {CallFormat::kLlama, {"\"parameters\": ", "ipython"}},
  };
  return signs;
}

const std::vector<Sign<ThinkFormat>>& think_signs() {
  static const std::vector<Sign<ThinkFormat>> signs = {
      {ThinkFormat::kHarmony, {"<|channel|>", "<|message|>"}},
      {ThinkFormat::kMistral, {"[THINK]"}},
      {ThinkFormat::kTags, {"</think>"}},
  };
  return signs;
}

template <typename Format>
const Sign<Format>* recognised(const std::vector<Sign<Format>>& signs, const std::string& source) {
  for (const auto& sign : signs)
    if (std::all_of(sign.texts.begin(), sign.texts.end(), [&](std::string_view text) { return source.find(text) != std::string::npos; }))
      return &sign;
  return nullptr;
}

/// Every tag of every format that a vocabulary may have as a special token. At most 127: a mark is one byte.
constexpr const char* kTags[] = {
    "<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
    "</arg_value>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "<|tool_call_start|>", "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};

std::vector<std::string> special_tags(const Tokenizer& tokenizer) {
  std::vector<std::string> out;
  for (const char* tag : kTags) {
    const int32_t id = tokenizer.token_id(tag);
    if (id >= 0 && tokenizer.is_special(id)) out.emplace_back(tag);
  }
  return out;
}

/// Whether a tool that a request offers turns up in the prompt.
bool shows_tools(const ChatTemplate& chat_template) {
  constexpr const char* kName = "probe_of_tools";
  RenderInput input;
  input.messages = {{{"role", "user"}, {"content", "Hello."}}};
  input.tools = {{{"type", "function"},
                  {"function", {{"name", kName}, {"description", "None."},
                                {"parameters", {{"type", "object"}, {"properties", {{"a", {{"type", "string"}}}}}}}}}}};
  input.extra = nlohmann::ordered_json::object();
  const auto rendered = chat_template.render(input);
  return rendered.ok() && joined_text(*rendered).find(kName) != std::string::npos;
}

template <typename Format>
Format format_named(const std::string& name, const std::vector<std::pair<std::string_view, Format>>& names) {
  for (const auto& [known, format] : names)
    if (name == known) return format;
  return Format::kNone;
}

const std::vector<std::pair<std::string_view, CallFormat>> kCallNames = {
    {"hermes", CallFormat::kHermes},   {"qwen3_xml", CallFormat::kXml},      {"glm45", CallFormat::kGlm},
    {"llama3_json", CallFormat::kLlama}, {"pythonic", CallFormat::kPython},  {"lfm2", CallFormat::kLfm},
    {"mistral", CallFormat::kMistral}, {"deepseek_v3", CallFormat::kDeepSeek}, {"deepseek_v32", CallFormat::kDsml},
    {"openai", CallFormat::kHarmony}};
const std::vector<std::pair<std::string_view, ThinkFormat>> kThinkNames = {
    {"think", ThinkFormat::kTags}, {"mistral", ThinkFormat::kMistral}, {"openai", ThinkFormat::kHarmony}};

template <typename Format>
const char* name_in(const std::vector<std::pair<std::string_view, Format>>& names, Format format) {
  for (const auto& [name, known] : names)
    if (known == format) return name.data();
  return "none";
}

template <typename Format>
std::string sign_text(const Sign<Format>& sign) {
  std::string out = "the chat template has ";
  for (size_t i = 0; i < sign.texts.size(); ++i) out += (i ? " and " : "") + std::string(sign.texts[i]);
  return out;
}

}  // namespace

const char* name_of(ThinkFormat format) { return name_in(kThinkNames, format); }
const char* name_of(CallFormat format) { return name_in(kCallNames, format); }

OutputFormat find_output_format(const ChatTemplate* chat_template, const Tokenizer& tokenizer, const std::string& reasoning_parser,
                                const std::string& tool_call_parser) {
  OutputFormat out;
  const std::string source = chat_template ? chat_template->source() : std::string();
  out.marks = special_tags(tokenizer);
  out.template_shows_tools = chat_template && shows_tools(*chat_template);
  out.dsml_section = source.find("'tool_calls>") != std::string::npos ? "tool_calls" : "function_calls";

  out.deepseek_fences = source.find("```json") != std::string::npos;
  out.mistral_names = source.find("[ARGS]") != std::string::npos || tokenizer.token_id("[ARGS]") >= 0;

  if (reasoning_parser != "auto") {
    out.think = format_named(reasoning_parser, kThinkNames);
    out.think_why = "--reasoning-parser";
  } else if (const auto* sign = recognised(think_signs(), source)) {
    out.think = sign->format;
    out.think_why = sign_text(*sign);
  } else if (tokenizer.token_id("<think>") >= 0 && tokenizer.token_id("</think>") >= 0) {
    out.think = ThinkFormat::kTags;
    out.think_why = "the vocabulary has <think> and </think>";
  } else {
    out.think_why = "neither the chat template nor the vocabulary has a known tag";
  }

  if (tool_call_parser != "auto") {
    out.calls = format_named(tool_call_parser, kCallNames);
    out.calls_why = "--tool-call-parser";
  } else if (const auto* sign = recognised(call_signs(), source); sign && out.template_shows_tools) {
    out.calls = sign->format;
    out.calls_why = sign_text(*sign);
  } else if (sign && sign->format == CallFormat::kHarmony) {
    out.calls = CallFormat::kHarmony;
    out.calls_why = sign_text(*sign);
  } else {
    out.calls = CallFormat::kHermes;
    out.calls_why = sign ? "the chat template shows no tools; the server's own text asks for this form"
                         : "the chat template has no known tag; the server's own text asks for this form";
    out.template_shows_tools = false;  // or in a form whose answers nobody here reads
  }
  // the two are one format
  if (out.calls == CallFormat::kHarmony && out.think == ThinkFormat::kNone) out.think = ThinkFormat::kHarmony;
  return out;
}

std::string new_call_id(CallFormat format) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  constexpr char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string out = format == CallFormat::kMistral ? "" : "call_";
  const size_t length = format == CallFormat::kMistral ? 9 : 29;
  while (out.size() < length) out.push_back(digits[generator() % 62]);
  return out;
}

}  // namespace slipstream::output
