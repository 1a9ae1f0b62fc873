// What a Config holds, for people and machines: --print-config and --help.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/flag.h"
#include "config/load.h"
#include "config/value.h"

namespace slipstream {
namespace {

using config::Flag;
using config::Treatment;

struct Row {
  const Flag* flag;
  std::string value;
  std::string source;
};

std::vector<Row> effective_rows(const Config& given) {
  Config settings = given;  // the table's accessors hand out references
  std::vector<Row> rows;
  for (const Flag& flag : config::flags()) {
    if (flag.treatment != Treatment::kSet) continue;
    const auto source = given.source.find(std::string(flag.name));
    rows.push_back({&flag, config::field_text(flag, settings),
                    source == given.source.end() ? "default" : source->second});
  }
  return rows;
}

nlohmann::json typed(const Row& row) {
  const Flag& flag = *row.flag;
  const bool text = std::holds_alternative<std::string& (*)(Config&)>(flag.field);
  if (flag.secret || text) return row.value;
  if (config::is_list(flag)) {
    nlohmann::json list = nlohmann::json::array();
    for (size_t begin = 0; begin < row.value.size();) {
      const size_t end = std::min(row.value.find(',', begin), row.value.size());
      list.push_back(row.value.substr(begin, end - begin));
      begin = end + 1;
    }
    return list;
  }
  return nlohmann::json::parse(row.value);
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// `text` broken at spaces so that lines end before column 100, all but the first indented.
std::string wrapped(const std::string& text, size_t indent) {
  constexpr size_t kColumns = 100;
  std::string out;
  size_t column = indent;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (column + (end - begin) > kColumns && column > indent) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (begin > 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return out;
}

std::string flag_words(const Flag& flag) {
  std::string out = "--" + std::string(flag.name);
  if (!config::is_switch(flag)) out += " " + std::string(flag.metavar);
  if (config::is_list(flag)) out += " ...";
  return out;
}

std::string help_of(const Flag& flag, const std::string& default_text) {
  std::string text(flag.help);
  if (config::is_switch(flag) && flag.treatment == Treatment::kSet) {
    text += default_text == "true" ? " On; --no-" + std::string(flag.name) + " switches it off." : "";
  } else if (!default_text.empty() && default_text != "0") {
    text += " Default: " + default_text + ".";
  }
  std::string aliases;
  for (const config::Alias& alias : flag.aliases) {
    if (alias.negated) continue;
    aliases += (aliases.empty() ? "" : ", ") + std::string(alias.name.size() <= 2 ? "-" : "--") + std::string(alias.name);
  }
  if (!aliases.empty()) text += " Also: " + aliases + ".";
  return text;
}

}  // namespace

std::string describe_config(const Config& given, bool as_json) {
  const std::vector<Row> rows = effective_rows(given);
  if (as_json) {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    for (const Row& row : rows) {
      settings[std::string(row.flag->name)] = {{"value", typed(row)}, {"source", row.source}};
    }
    const nlohmann::ordered_json out = {{"settings", settings}, {"warnings", given.warnings}};
    return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  size_t name_width = 0, value_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.flag->name.size());
    value_width = std::max(value_width, std::min<size_t>(row.value.size(), 40));
  }
  std::string out;
  for (const Row& row : rows) {
    std::string value = row.value.empty() ? "-" : row.value;
    out += padded(std::string(row.flag->name), name_width + 2) + padded(value, value_width + 2) + row.source + "\n";
  }
  for (const std::string& warning : given.warnings) out += "warning: " + warning + "\n";
  return out;
}

std::string serve_help() {
  Config defaults;
  std::string out =
      "usage: slipstream serve MODEL [flags] [--config FILE]\n\n"
      "Serves MODEL over an OpenAI-compatible HTTP API. A value comes from, in this order: the command line, the\n"
      "environment (SLIPSTREAM_PORT for --port), the YAML file, the default. Flags of vLLM, SGLang, TensorRT-LLM and\n"
      "llama-server are understood too; docs/compatibility.md lists them all.\n";
  constexpr size_t kIndent = 6;
  std::string_view group;
  for (const Flag& flag : config::flags()) {
    if (flag.treatment == Treatment::kNoEffect || flag.treatment == Treatment::kRefused) continue;
    if (flag.group != group) {
      group = flag.group;
      out += "\n" + std::string(group) + ":\n";
    }
    const std::string default_text =
        flag.treatment == Treatment::kSet ? config::field_text(flag, defaults) : std::string();
    out += "  " + flag_words(flag) + "\n" + std::string(kIndent, ' ') + wrapped(help_of(flag, default_text), kIndent) + "\n";
  }
  return out;
}

}  // namespace slipstream
