// See reading.h.
#include "tests/unit/output/reading.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"

namespace slipstream::test {
namespace {

using api::AnswerPart;
using api::PartKind;

struct Token {
  std::string text;
  bool control;
};

/// The text cut where special tokens stand.
std::vector<Token> tokens_of(const std::string& text, const std::vector<std::string>& specials) {
  std::vector<Token> out;
  std::string plain;
  for (size_t i = 0; i < text.size();) {
    const auto special = std::find_if(specials.begin(), specials.end(), [&](const std::string& s) { return text.compare(i, s.size(), s) == 0; });
    if (special == specials.end()) {
      plain.push_back(text[i++]);
      continue;
    }
    if (!plain.empty()) out.push_back({plain, false});
    plain.clear();
    out.push_back({*special, true});
    i += special->size();
  }
  if (!plain.empty()) out.push_back({plain, false});
  return out;
}

void add(const std::vector<AnswerPart>& parts, Reading* out) {
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case PartKind::kReasoning: out->reasoning += part.text; break;
      case PartKind::kContent: out->content += part.text; break;
      case PartKind::kCallStart:
        out->in_order = out->in_order && part.call == static_cast<int32_t>(out->calls.size());
        out->calls.push_back({part.text, "", part.call_id});
        break;
      case PartKind::kCallArguments:
        if (part.call + 1 != static_cast<int32_t>(out->calls.size())) {
          out->in_order = false;
          break;
        }
        out->calls.back().arguments += part.text;
        break;
    }
  }
}

output::ParserOptions options_of(const Setting& setting) {
  output::ParserOptions options;
  if (!setting.tools.is_null()) options.tools = std::make_shared<const output::ToolSet>(setting.tools);
  options.split_reasoning = setting.split_reasoning;
  options.single_call = setting.single_call;
  options.skip_special = setting.skip_special;
  options.prompt_tail = setting.prompt_tail;
  options.continues_message = setting.continues_message;
  options.call_id = [] { return std::string("call_x"); };
  return options;
}

/// `next_length` says how long the next piece of plain text is.
template <typename Length>
Reading read_cut(const Setting& setting, const std::vector<Token>& tokens, bool finish, Length next_length) {
  Reading out;
  const auto parser = output::make_parser(setting.format, options_of(setting));
  REQUIRE(parser);
  std::vector<AnswerPart> parts;
  for (const Token& token : tokens) {
    for (size_t at = 0; at < token.text.size();) {
      const size_t length = token.control ? token.text.size() : std::min(next_length(), token.text.size() - at);
      parts.clear();
      parser->push(std::string_view(token.text).substr(at, length), token.control, &parts);
      add(parts, &out);
      at += length;
    }
  }
  out.ends_reasoning = parser->reasoning();
  parts.clear();
  if (finish) parser->finish(&parts);
  add(parts, &out);
  out.done = parser->done();
  return out;
}

std::vector<std::string> all_specials(const Setting& setting, std::vector<std::string> specials) {
  specials.insert(specials.end(), setting.format.marks.begin(), setting.format.marks.end());
  return specials;
}

}  // namespace

output::OutputFormat format_of(output::ThinkFormat think, output::CallFormat calls, std::vector<std::string> marks) {
  output::OutputFormat out;
  out.think = think;
  out.calls = calls;
  out.marks = std::move(marks);
  out.dsml_section = "function_calls";
  return out;
}

nlohmann::ordered_json example_tools() {
  return nlohmann::ordered_json::parse(R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"}, "unit": {"type": ["string", "null"]},
      "ids": {"type": "array", "items": {"type": "integer"}}, "opts": {"type": "object"}, "any": {}, "share": {"type": "number"}}}}},
    {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {
      "path": {"type": "string"}, "text": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])");
}

Reading read(const Setting& setting, const std::string& text, const std::vector<std::string>& specials) {
  const std::vector<Token> tokens = tokens_of(text, all_specials(setting, specials));
  const Reading whole = read_cut(setting, tokens, true, [] { return std::string::npos; });
  INFO("text: " << text);
  CHECK(whole.in_order);
  CHECK(read_cut(setting, tokens, true, [] { return size_t{1}; }) == whole);
  std::mt19937 random(7);
  for (int i = 0; i < 8; ++i) {
    const size_t most = 1 + random() % 12;
    CHECK(read_cut(setting, tokens, true, [&] { return 1 + random() % most; }) == whole);
  }
  return whole;
}

Reading read_unfinished(const Setting& setting, const std::string& text, const std::vector<std::string>& specials) {
  return read_cut(setting, tokens_of(text, all_specials(setting, specials)), false, [] { return size_t{1}; });
}

}  // namespace slipstream::test
