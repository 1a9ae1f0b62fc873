// YAML keys to settings.
#include "config/yaml_settings.h"

#include "config/value.h"
#include "config/yaml.h"

namespace slipstream::config {
namespace {

Error refuse(const Setting& setting, const std::string& problem) {
  return invalid_argument(setting.where() + ": " + problem, setting.given);
}

Status add_entry(const YamlEntry& entry, const std::string& prefix, const std::string& file, Layer& out) {
  const std::string source = file + ":" + std::to_string(entry.line);
  SLIP_TRY(Setting setting, name_setting(prefix + entry.key, entry.key, source));
  const Flag& flag = *setting.name.flag;
  if (setting.name.alias != nullptr && !setting.name.alias->fixed.empty()) {
    return refuse(setting, "only a command line takes this word; write " + std::string(flag.name) + ": " +
                               std::string(setting.name.alias->fixed));
  }
  if (flag.treatment == Treatment::kAction) {
    return refuse(setting, "belongs on the command line, not into a file");
  }
  const YamlNode& value = entry.value;
  switch (value.kind) {
    case YamlNode::Kind::kNull:
      return refuse(setting, "has no value; give one, or delete the line");
    case YamlNode::Kind::kScalar:
      setting.values = {value.text};
      break;
    case YamlNode::Kind::kList:
      for (const YamlNode& item : value.items) {
        if (item.kind != YamlNode::Kind::kScalar) return refuse(setting, "its list may only hold plain values");
        setting.values.push_back(item.text);
      }
      if (flag.treatment == Treatment::kSet && !is_list(flag)) return refuse(setting, "takes one value, not a list");
      break;
    case YamlNode::Kind::kMap:
      if (flag.treatment == Treatment::kObject) {
        for (const YamlEntry& inner : value.entries) {
          SLIP_RETURN_IF_ERROR(add_entry(inner, std::string(flag.name) + ".", file, out));
        }
        return Ok{};
      }
      if (flag.treatment == Treatment::kSet && !flag.text_is_json) {
        return refuse(setting, "takes " + std::string(is_list(flag) ? "a list" : "one value") + ", not a map");
      }
      setting.values = {yaml_to_json(value)};
      break;
  }
  out.push_back(std::move(setting));
  return Ok{};
}

}  // namespace

Result<Layer> parse_yaml_settings(std::string_view text, const std::string& name) {
  SLIP_TRY(const YamlNode root, parse_yaml(text, name));
  if (root.kind != YamlNode::Kind::kMap) {
    return invalid_argument(name + ":" + std::to_string(root.line) + ": expected lines of the form \"port: 8000\"");
  }
  Layer layer;
  for (const YamlEntry& entry : root.entries) {
    SLIP_RETURN_IF_ERROR(add_entry(entry, "", name, layer));
  }
  return layer;
}

}  // namespace slipstream::config
