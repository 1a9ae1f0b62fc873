// Words of the command line to settings.
#include "config/cli.h"

#include <algorithm>

#include "config/value.h"

namespace slipstream::config {
namespace {

/// "-1" and "-0.5" are values; "-m" and "--port" are flags.
bool is_flag_word(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

bool is_bool_word(const std::string& word) { return word == "true" || word == "false"; }

/// A JSON array of strings, as vLLM takes --allowed-origins '["*"]', is opened; any other text is itself.
std::vector<std::string> list_items(const std::string& word) {
  if (word.size() < 2 || word.front() != '[' || word.back() != ']') return {word};
  std::vector<std::string> items;
  std::string item;
  for (char c : word.substr(1, word.size() - 2)) {
    if (c == ',') {
      items.push_back(item);
      item.clear();
    } else if (c != '"' && c != '\'' && c != ' ') {
      item += c;
    }
  }
  if (!item.empty()) items.push_back(item);
  return items;
}

class Words {
 public:
  explicit Words(const std::vector<std::string>& args) : args_(args) {}
  bool done() const { return at_ >= args_.size(); }
  const std::string& peek() const { return args_[at_]; }
  std::string take() { return args_[at_++]; }
  bool value_follows() const { return !done() && !is_flag_word(peek()); }

 private:
  const std::vector<std::string>& args_;
  size_t at_ = 0;
};

Error needs_value(const Setting& setting) {
  return invalid_argument(setting.given + " needs a value: " + std::string(setting.name.flag->metavar), setting.given);
}

/// Takes the setting's values from `inline_value` ("--port=1") or the words that follow.
Status read_values(Setting& setting, const std::string* inline_value, bool model_known, Words& words) {
  const Flag& flag = *setting.name.flag;
  const bool fixed = setting.name.alias != nullptr && !setting.name.alias->fixed.empty();
  if (fixed) {
    if (inline_value) return invalid_argument(setting.given + " takes no value", setting.given);
    return Ok{};
  }
  if (inline_value) {
    setting.values = is_list(flag) ? list_items(*inline_value) : std::vector<std::string>{*inline_value};
    return Ok{};
  }
  if (is_switch(flag)) {
    setting.values = {!words.done() && is_bool_word(words.peek()) ? words.take() : "true"};
    return Ok{};
  }
  if (!words.value_follows()) {
    // Flags of other engines may take a value or not from one release to the next.
    if (flag.treatment == Treatment::kNoEffect || flag.treatment == Treatment::kRefused) return Ok{};
    return needs_value(setting);
  }
  if (!is_list(flag)) {
    setting.values = {words.take()};
    return Ok{};
  }
  do {
    for (std::string& item : list_items(words.take())) setting.values.push_back(std::move(item));
  } while (model_known && words.value_follows());
  return Ok{};
}

bool names_model(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return name == "--model" || name == "--model-path" || name == "--model_path" || name == "-m";
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  CommandLine line;
  Words words(args);
  bool model_known = std::any_of(args.begin(), args.end(), names_model);
  std::string positional;
  bool only_words = false;
  while (!words.done()) {
    const std::string word = words.take();
    if (word == "--" && !only_words) {
      only_words = true;
      continue;
    }
    if (only_words || !is_flag_word(word)) {
      if (!positional.empty()) {
        return invalid_argument("unexpected argument " + in_quotes(word) + ": MODEL is already " + in_quotes(positional), "model");
      }
      if (word.empty()) return invalid_argument("MODEL is empty; give a folder, a .gguf file or a hub id", "model");
      positional = word;
      model_known = true;
      line.settings.push_back({find_flag("model"), "MODEL", {word}, "MODEL"});
      continue;
    }
    const size_t equals = word.find('=');
    const std::string given = word.substr(0, equals);
    const size_t dashes = given.starts_with("--") ? 2 : 1;
    const std::string inline_value = equals == std::string::npos ? "" : word.substr(equals + 1);
    SLIP_TRY(Setting setting, name_setting(given.substr(dashes), given, given));
    SLIP_RETURN_IF_ERROR(
        read_values(setting, equals == std::string::npos ? nullptr : &inline_value, model_known, words));
    if (setting.name.flag->name == "config") {
      if (!line.config_file.empty()) return invalid_argument("--config is given twice; keep one", "config");
      line.config_file = setting.values[0];
      if (line.config_file.empty()) return needs_value(setting);
      continue;
    }
    // "--api-key a --api-key b" is one list.
    if (is_list(*setting.name.flag)) {
      auto same = std::find_if(line.settings.begin(), line.settings.end(),
                               [&](const Setting& s) { return s.name.flag == setting.name.flag; });
      if (same != line.settings.end()) {
        same->values.insert(same->values.end(), setting.values.begin(), setting.values.end());
        continue;
      }
    }
    line.settings.push_back(std::move(setting));
  }
  return line;
}

}  // namespace slipstream::config
