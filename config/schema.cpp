// The JSON schema of the YAML file, and the flag table as JSON for the docs and their test. Both are made from the
// flag table alone.
#include <nlohmann/json.hpp>

#include "config/flag.h"
#include "config/flag_json.h"
#include "config/load.h"
#include "config/value.h"

namespace slipstream {
namespace {

using config::Flag;
using config::Treatment;
using nlohmann::ordered_json;

template <typename T>
bool holds(const Flag& flag) {
  return std::holds_alternative<T& (*)(Config&)>(flag.field);
}

bool is_integer(const Flag& flag) { return holds<int32_t>(flag) || holds<int64_t>(flag) || holds<uint64_t>(flag); }

ordered_json default_value(const Flag& flag) {
  Config defaults;
  const std::string text = config::field_text(flag, defaults);
  if (config::is_list(flag)) return ordered_json::array();
  if (holds<std::string>(flag)) return text;
  return ordered_json::parse(text);
}

ordered_json property_of(const Flag& flag) {
  ordered_json out = {{"description", std::string(flag.help)}};
  if (flag.treatment == Treatment::kObject) return out;
  out["default"] = default_value(flag);
  if (config::is_list(flag)) {
    out["oneOf"] = {{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}};
  } else if (holds<bool>(flag)) {
    out["type"] = "boolean";
  } else if (is_integer(flag)) {
    ordered_json number = {{"type", "integer"}};
    if (flag.min != 0 || flag.max != 0) {
      number["minimum"] = static_cast<int64_t>(flag.min);
      number["maximum"] = static_cast<int64_t>(flag.max);
    }
    const char* suffixed = flag.metavar == "BYTES" ? "^[0-9]+(\\.[0-9]+)?([kKmMgGtT]|[KMGT]i?B|B)$"
                                                   : "^[0-9]+(\\.[0-9]+)?[kKmMgGtT]$";
    out["anyOf"] = {number, {{"type", "string"}, {"pattern", suffixed}}};
    for (const auto& [word, ours] : flag.values) {
      if (word[0] != '-') out["anyOf"].push_back({{"const", std::string(word)}});
    }
  } else if (holds<double>(flag)) {
    out["type"] = "number";
    out["minimum"] = flag.min;
    out["maximum"] = flag.max;
  } else if (!flag.choices.empty()) {
    for (std::string_view choice : flag.choices) out["enum"].push_back(std::string(choice));
    for (const auto& [word, ours] : flag.values) out["enum"].push_back(std::string(word));
  } else if (flag.text_is_json) {
    out["oneOf"] = {{{"type", "object"}}, {{"type", "string"}}};
  } else {
    out["type"] = "string";
  }
  return out;
}

const char* treatment_name(Treatment treatment) {
  switch (treatment) {
    case Treatment::kSet:
    case Treatment::kObject:
    case Treatment::kAction:
      return "served";
    case Treatment::kNoEffect:
      return "no effect";
    case Treatment::kRefused:
      return "refused";
  }
  return "";
}

}  // namespace

std::string config_json_schema() {
  ordered_json properties = ordered_json::object();
  for (const Flag& flag : config::flags()) {
    if (flag.treatment != Treatment::kSet && flag.treatment != Treatment::kObject) continue;
    const std::string name(flag.name);
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      properties[name] = property_of(flag);
      if (flag.treatment == Treatment::kObject) {
        properties[name]["type"] = "object";
        properties[name]["additionalProperties"] = false;
        properties[name]["properties"] = ordered_json::object();
      }
    } else {
      properties[name.substr(0, dot)]["properties"][name.substr(dot + 1)] = property_of(flag);
    }
  }
  const ordered_json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "slipstream serve --config FILE"},
      {"description",
       "Keys are the long flag names. Underscores and other engines' names are accepted too, but are not listed here."},
      {"type", "object"},
      {"additionalProperties", false},
      {"properties", properties},
  };
  return schema.dump(2) + "\n";
}

namespace config {

std::string flag_table_json() {
  ordered_json rows = ordered_json::array();
  for (const Flag& flag : flags()) {
    ordered_json aliases = ordered_json::array();
    for (const Alias& alias : flag.aliases) aliases.push_back(std::string(alias.name));
    ordered_json row = {{"name", std::string(flag.name)},
                        {"treatment", treatment_name(flag.treatment)},
                        {"group", std::string(flag.group)},
                        {"switch", is_switch(flag)},
                        {"metavar", std::string(flag.metavar)},
                        {"aliases", aliases},
                        {"help", std::string(flag.help)}};
    if (flag.treatment == Treatment::kSet) {
      Config defaults;
      row["default"] = field_text(flag, defaults);
      row["env"] = env_name(flag.name);
    }
    ordered_json refused = ordered_json::array();
    for (const auto& [word, why] : flag.refused_values) refused.push_back(std::string(word));
    if (!refused.empty()) row["refused_values"] = refused;
    rows.push_back(row);
  }
  return rows.dump(1) + "\n";
}

}  // namespace config
}  // namespace slipstream
