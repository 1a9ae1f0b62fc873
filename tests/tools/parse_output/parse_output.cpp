// Reads a model's text as the server would: one JSON case a line on stdin, one JSON result a line on stdout.
//
// Case: {"template", "specials": [special tokens], "tools", "prompt", "text", "call_form"}; without call_form the template tells.
// Result: {"think", "call_form", "shows_tools", "reasoning", "content", "calls": [{"name", "arguments"}]}; the text goes in
// character by character.
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/base/utf8.h"
#include "server/output/output_format.h"
#include "tests/unit/output/special_tokens.h"

namespace {

using namespace slipstream;
using nlohmann::ordered_json;

void push_all(api::OutputParser& parser, std::string_view text, const std::vector<std::string>& specials,
              std::vector<api::AnswerPart>* parts) {
  while (!text.empty()) {
    size_t length = utf8_sequence_at(text, 0).bytes;
    bool control = false;
    for (const std::string& special : specials) {
      if (!text.starts_with(special)) continue;
      length = special.size();
      control = true;
    }
    parser.push(text.substr(0, length), control, parts);
    text.remove_prefix(length);
  }
  parser.finish(parts);
}

ordered_json run(const ordered_json& task) {
  const auto compiled = ChatTemplate::compile(task.at("template").get<std::string>(), "<s>", "</s>");
  if (!compiled.ok()) return {{"error", compiled.error().message}};
  const auto specials = task.value("specials", std::vector<std::string>{});
  const output::OutputFormat format = output::find_output_format(compiled->get(), SpecialTokens(specials), "auto", task.value("call_form", std::string("auto")));
  output::ParserOptions options;
  if (task.contains("tools") && task["tools"].is_array()) options.tools = std::make_shared<const output::ToolSet>(task["tools"]);
  options.prompt_tail = task.value("prompt", std::string());
  std::vector<api::AnswerPart> parts;
  const std::string text = task.value("text", std::string());
  if (const auto parser = output::make_parser(format, options))
    push_all(*parser, text, specials, &parts);
  else
    parts.push_back({api::PartKind::kContent, text, -1, {}});
  ordered_json out = {{"think", output::name_of(format.think)},
                      {"call_form", output::name_of(format.calls)},
                      {"shows_tools", format.template_shows_tools},
                      {"reasoning", ""}, {"content", ""}, {"calls", ordered_json::array()}};
  for (const api::AnswerPart& part : parts) {
    switch (part.kind) {
      case api::PartKind::kReasoning: out["reasoning"] = out["reasoning"].get<std::string>() + part.text; break;
      case api::PartKind::kContent: out["content"] = out["content"].get<std::string>() + part.text; break;
      case api::PartKind::kCallStart: out["calls"].push_back({{"name", part.text}, {"arguments", ""}}); break;
      case api::PartKind::kCallArguments: {
        ordered_json& arguments = out["calls"].back()["arguments"];
        arguments = arguments.get<std::string>() + part.text;
        break;
      }
    }
  }
  return out;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const ordered_json task = ordered_json::parse(line, nullptr, false);
    const ordered_json result = task.is_object() && task.contains("template") ? run(task) : ordered_json{{"error", "no case"}};
    std::cout << result.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n' << std::flush;
  }
  return 0;
}
