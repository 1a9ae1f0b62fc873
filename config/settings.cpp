// Layers of settings applied to Config.
#include "config/settings.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/value.h"

namespace slipstream::config {
namespace {

using nlohmann::json;

constexpr size_t kJsonBytes = 64 << 10;

/// A flag with its final name and values, after aliases, negations and JSON maps.
struct Resolved {
  const Flag* flag;
  std::vector<std::string> values;
  std::string where;
  std::string source;
  std::string given;
};

Result<json> parse_object(const std::string& text, const std::string& where) {
  if (text.size() > kJsonBytes) return invalid_argument(where + ": over 65536 bytes of JSON", where);
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return invalid_argument(where + ": " + in_quotes(text) + " is not valid JSON", where);
  if (!value.is_object()) return invalid_argument(where + ": expected a JSON object, such as {\"key\": 1}", where);
  return value;
}

Status open_object(const Setting& setting, std::vector<Resolved>& out) {
  const std::string where = setting.where();
  if (setting.values.size() != 1) return invalid_argument(where + ": expected one JSON object", where);
  SLIP_TRY(const json object, parse_object(setting.values[0], where));
  for (const auto& [key, value] : object.items()) {
    const std::string name = std::string(setting.name.flag->name) + "." + key;
    const FlagName found = find_flag(name);
    if (found.flag == nullptr || found.alias != nullptr) {
      const std::string nearest = nearest_flag(name);
      return invalid_argument(
          where + ": unknown key " + in_quotes(key) + (nearest.empty() ? "" : "; did you mean " + nearest + "?"), where);
    }
    if (value.is_null() || value.is_structured()) {
      return invalid_argument(where + ": " + in_quotes(key) + " needs a plain value", where);
    }
    out.push_back({found.flag, {value.is_string() ? value.get<std::string>() : value.dump()}, where + ": " + key,
                   setting.source, setting.given});
  }
  return Ok{};
}

/// Gathers "--default-chat-template-kwargs.enable_thinking false" forms into one JSON object per flag.
Status add_json_key(const Setting& setting, std::vector<Resolved>& out) {
  const std::string where = setting.where();
  if (setting.values.size() != 1) return invalid_argument(where + ": expected one value", where);
  auto same = std::find_if(out.begin(), out.end(), [&](const Resolved& r) { return r.flag == setting.name.flag; });
  json object = json::object();
  if (same != out.end()) {
    SLIP_TRY(object, parse_object(same->values[0], same->where));
  }
  const json value = json::parse(setting.values[0], nullptr, false);
  object[setting.json_key] = value.is_discarded() ? json(setting.values[0]) : value;
  const std::string text = object.dump(-1, ' ', false, json::error_handler_t::replace);
  if (same != out.end()) {
    same->values[0] = text;
  } else {
    out.push_back({setting.name.flag, {text}, where, setting.source, setting.given});
  }
  return Ok{};
}

/// Values in the flag's own words: the alias's translation, its fixed value, and the negation of a switch.
Result<std::vector<std::string>> own_values(const Setting& setting) {
  std::vector<std::string> values = setting.values;
  if (const Alias* alias = setting.name.alias) {
    for (std::string& value : values) {
      for (const auto& [theirs, ours] : alias->values) {
        if (value == theirs) value = ours;
      }
    }
    if (!alias->fixed.empty()) values = {std::string(alias->fixed)};
  }
  if (is_switch(*setting.name.flag)) {
    if (values.size() != 1) return invalid_argument(setting.where() + ": a switch is true or false", setting.where());
    auto on = parse_bool(values[0]);
    if (!on) return invalid_argument(setting.where() + ": " + on.error().message, setting.where());
    values = {*on != setting.name.negated ? "true" : "false"};
  }
  return values;
}

/// Whether a flag that is refused asks here for what is served anyway ("--data-parallel-size 1", "--no-enable-lora").
bool asks_for_nothing(const Flag& flag, const std::vector<std::string>& values) {
  if (is_switch(flag)) return values == std::vector<std::string>{"false"};
  return values.size() == 1 && std::find(flag.choices.begin(), flag.choices.end(), values[0]) != flag.choices.end();
}

Status resolve(const Setting& setting, std::vector<Resolved>& out, std::vector<std::string>& warnings) {
  const Flag& flag = *setting.name.flag;
  const std::string where = setting.where();
  if (flag.treatment == Treatment::kAction) return Ok{};
  if (flag.treatment == Treatment::kObject) return open_object(setting, out);
  if (!setting.json_key.empty()) return add_json_key(setting, out);
  SLIP_TRY(std::vector<std::string> values, own_values(setting));
  switch (flag.treatment) {
    case Treatment::kRefused:
      if (asks_for_nothing(flag, values)) return Ok{};
      return unsupported(where + ": " + std::string(flag.help), where);
    case Treatment::kNoEffect:
      for (const std::string& value : values) {
        for (const auto& [word, why] : flag.refused_values) {
          if (word == value) return unsupported(where + ": " + in_quotes(value) + " " + std::string(why), where);
        }
        if (!flag.choices.empty() &&
            std::find(flag.choices.begin(), flag.choices.end(), value) == flag.choices.end()) {
          return unsupported(where + ": " + in_quotes(value) + " is not known; leave it out", where);
        }
      }
      warnings.push_back(where + " has no effect: " + std::string(flag.help));
      return Ok{};
    default:
      break;
  }
  if (setting.name.alias && !setting.name.alias->warning.empty()) {
    warnings.push_back(where + " " + std::string(setting.name.alias->warning));
  }
  out.push_back({&flag, std::move(values), where, setting.source, setting.given});
  return Ok{};
}

}  // namespace

Result<Setting> name_setting(const std::string& written, const std::string& given, const std::string& source) {
  Setting setting{find_flag(written), given, {}, source};
  if (setting.name.flag != nullptr) return setting;
  if (const size_t dot = written.find('.'); dot != std::string::npos && dot + 1 < written.size()) {
    const FlagName parent = find_flag(written.substr(0, dot));
    if (parent.flag != nullptr && parent.flag->text_is_json && !parent.negated) {
      setting.name = parent;
      setting.json_key = written.substr(dot + 1);
      return setting;
    }
  }
  const std::string nearest = nearest_flag(written);
  std::string message = setting.where() + ": unknown setting";
  if (!nearest.empty()) message += "; did you mean " + (given.starts_with("-") ? "--" + nearest : nearest) + "?";
  message += " (known ones: slipstream serve --help)";
  return invalid_argument(message, given);
}

Status apply_layer(const Layer& layer, Config& config) {
  std::vector<Resolved> settings;
  for (const Setting& setting : layer) {
    SLIP_RETURN_IF_ERROR(resolve(setting, settings, config.warnings));
  }
  std::map<const Flag*, const Resolved*> seen;
  for (const Resolved& setting : settings) {
    SLIP_RETURN_IF_ERROR(set_field(*setting.flag, setting.values, setting.where, config));
    const std::string text = field_text(*setting.flag, config);
    const auto [it, first] = seen.emplace(setting.flag, &setting);
    if (!first && it->second->values != setting.values) {
      Config other = config;
      SLIP_RETURN_IF_ERROR(set_field(*setting.flag, it->second->values, setting.where, other));
      if (setting.flag->secret || field_text(*setting.flag, other) != text) {
        const std::string what = setting.where == it->second->where
                                     ? ": given twice with different values; keep one"
                                     : ": conflicts with " + it->second->where + ", both set " +
                                           std::string(setting.flag->name) + "; keep one";
        return invalid_argument(setting.where + what, setting.given);
      }
    }
    config.source[std::string(setting.flag->name)] = setting.source;
  }
  return Ok{};
}

}  // namespace slipstream::config
