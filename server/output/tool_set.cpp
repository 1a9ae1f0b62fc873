// See tool_set.h.
#include "server/output/tool_set.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace slipstream::output {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepth = 16;  // schemas nested deeper than this, by reference or union, count as any type …
constexpr int kLooks = 4096;  // … and so do those behind this many of one parameter: references may branch without end

uint8_t kind_named(const std::string& name) {
  constexpr std::pair<const char*, uint8_t> kNames[] = {{"string", kString},   {"integer", kInteger}, {"number", kNumber | kInteger},
                                                        {"boolean", kBoolean}, {"null", kNull},       {"object", kObject},
                                                        {"array", kArray}};
  for (const auto& [known, kind] : kNames)
    if (name == known) return kind;
  return kAnyKind;
}

uint8_t kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string: return kString;
    case Json::value_t::boolean: return kBoolean;
    case Json::value_t::null: return kNull;
    case Json::value_t::object: return kObject;
    case Json::value_t::array: return kArray;
    case Json::value_t::number_float: return kNumber;
    default: return kInteger;
  }
}

/// What a local reference ("#/$defs/City") points at, or null.
const Json* referred(const std::string& reference, const Json& root) {
  if (!reference.starts_with("#/")) return nullptr;
  const Json* at = &root;
  size_t from = 2;
  while (from <= reference.size()) {
    const size_t slash = std::min(reference.find('/', from), reference.size());
    const std::string key = reference.substr(from, slash - from);
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
    from = slash + 1;
  }
  return at;
}

uint8_t kinds_of(const Json& schema, const Json& root, int depth, int* looks) {
  if (!schema.is_object() || depth >= kDepth || --*looks < 0) return kAnyKind;
  uint8_t out = kAnyKind;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) {
      out = kind_named(type->get_ref<const std::string&>());
    } else if (type->is_array()) {
      out = 0;
      for (const Json& one : *type) out |= kind_named(one.is_string() ? one.get_ref<const std::string&>() : std::string());
    }
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    uint8_t kinds = 0;
    for (const Json& value : *values) kinds |= kind_of(value);
    out &= kinds;
  }
  if (const auto value = schema.find("const"); value != schema.end()) out &= kind_of(*value);
  for (const char* name : {"anyOf", "oneOf"}) {
    const auto options = schema.find(name);
    if (options == schema.end() || !options->is_array()) continue;
    uint8_t kinds = 0;
    for (const Json& option : *options) kinds |= kinds_of(option, root, depth + 1, looks);
    out &= kinds;
  }
  if (const auto all = schema.find("allOf"); all != schema.end() && all->is_array())
    for (const Json& one : *all) out &= kinds_of(one, root, depth + 1, looks);
  if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string()) {
    const Json* target = referred(reference->get_ref<const std::string&>(), root);
    if (target) out &= kinds_of(*target, root, depth + 1, looks);
  }
  return out == 0 ? static_cast<uint8_t>(kAnyKind) : out;
}

}  // namespace

uint8_t schema_kinds(const Json& schema, const Json& root) {
  int looks = kLooks;
  return kinds_of(schema, root, 0, &looks);
}

ToolSet::ToolSet(const Json& tools) {
  for (const Json& tool : tools) {
    const Json& function = tool.at("function");
    Parameters& parameters = functions_[function.at("name").get<std::string>()];
    const auto schema = function.find("parameters");
    if (schema == function.end() || !schema->is_object()) continue;
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->is_object()) continue;
    for (const auto& [name, property] : properties->items()) parameters[name] = schema_kinds(property, *schema);
  }
}

bool ToolSet::declares(std::string_view function, std::string_view parameter) const {
  const auto found = functions_.find(function);
  return found != functions_.end() && found->second.find(parameter) != found->second.end();
}

uint8_t ToolSet::kinds(std::string_view function, std::string_view parameter) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return kAnyKind;
  const auto kinds = found->second.find(parameter);
  return kinds == found->second.end() ? static_cast<uint8_t>(kAnyKind) : kinds->second;
}

}  // namespace slipstream::output
