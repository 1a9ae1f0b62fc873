// Reading a schema: places, references, alternatives.
#include "engine/grammar/schema_document.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <utility>

#include "engine/grammar/schema_keywords.h"

namespace slipstream::grammar {

namespace {

constexpr int kBrackets = 2 * limits::kGrammarDepth;  // a schema inside a schema takes two: {"properties": {"a": {

/// Looks at brackets outside strings only: what a parser must not recurse into.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kBrackets) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

const Json kTrue = true;

/// A token of a JSON pointer as it stands in a URI fragment: %25 and the like, then ~1 and ~0.
std::string unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto hex = [&](size_t at) { return at < token.size() && std::isxdigit(static_cast<uint8_t>(token[at])) != 0; };
    if (token[i] == '%' && hex(i + 1) && hex(i + 2)) {
      out += static_cast<char>(std::stoi(std::string(token.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out += token[++i] == '0' ? '~' : '/';
    } else {
      out += token[i];
    }
  }
  return out;
}

/// The type that a keyword without `type` beside it implies; 0 when it says nothing.
uint32_t implied_by(const std::string& keyword) {
  if (keyword == "properties" || keyword == "required" || keyword == "additionalProperties" ||
      keyword == "patternProperties" || keyword == "propertyNames" || keyword == "minProperties" || keyword == "maxProperties")
    return kObject;
  if (keyword == "items" || keyword == "prefixItems" || keyword == "minItems" || keyword == "maxItems" ||
      keyword == "uniqueItems")
    return kArray;
  if (keyword == "pattern" || keyword == "minLength" || keyword == "maxLength") return kString;
  if (keyword == "minimum" || keyword == "maximum" || keyword == "exclusiveMinimum" || keyword == "exclusiveMaximum" ||
      keyword == "multipleOf")
    return kInteger | kNumber;
  return 0;
}

uint32_t type_named(const Json& name) {
  static const std::map<std::string, uint32_t> kNames{
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kInteger | kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject}};
  const auto found = name.is_string() ? kNames.find(name.get<std::string>()) : kNames.end();
  return found == kNames.end() ? 0 : found->second;
}

}  // namespace

uint32_t type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number_integer()) return kInteger;
  if (value.is_number()) return std::trunc(value.get<double>()) == value.get<double>() ? kInteger : kNumber;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

SchemaDocument::SchemaDocument(std::string_view text, CompileContext& context) : context_(context), param_(context.param) {
  if (too_deep(text)) {
    context.fail("the schema nests deeper than " + std::to_string(limits::kGrammarDepth) + " schemas (" +
                 std::to_string(kBrackets) + " brackets); flatten it or use $defs");
    root_ = true;
    return;
  }
  root_ = Json::parse(text, nullptr, false);
  if (root_.is_discarded()) {
    context.fail("the schema is not valid JSON");
    root_ = true;
  }
  paths_[&root_] = "";
}

const std::string& SchemaDocument::path(const Json& schema) const {
  static const std::string kUnknown;
  const auto found = paths_.find(&schema);
  return found == paths_.end() ? kUnknown : found->second;
}

const Json& SchemaDocument::child(const Json& schema, const std::string& keyword) {
  const Json& value = schema[keyword];
  paths_.try_emplace(&value, path(schema) + "." + keyword);
  return value;
}

const Json& SchemaDocument::child(const Json& schema, const std::string& keyword, size_t index) {
  const Json& value = schema[keyword][index];
  paths_.try_emplace(&value, path(schema) + "." + keyword + "." + std::to_string(index));
  return value;
}

const Json& SchemaDocument::child(const Json& schema, const std::string& keyword, const std::string& name) {
  const Json& value = schema[keyword][name];
  paths_.try_emplace(&value, path(schema) + "." + keyword + "." + name);
  return value;
}

void SchemaDocument::fail(const Json& schema, const std::string& keyword, const std::string& what) {
  std::string place = param_ + path(schema) + (keyword.empty() ? "" : "." + keyword);
  if (place.starts_with('.')) place.erase(0, 1);
  context_.fail(invalid_argument("JSON schema: " + what, std::move(place)));
}

const Json* SchemaDocument::resolve(const Json& schema, const std::string& reference) {
  if (!reference.starts_with('#') || (reference.size() > 1 && reference[1] != '/')) {
    fail(schema, "$ref", "$ref \"" + reference.substr(0, 100) + "\" does not lead to a part of this schema (#/…)");
    return nullptr;
  }
  const Json* at = &root_;
  std::string place;
  for (size_t from = 2; from <= reference.size();) {
    const size_t slash = std::min(reference.find('/', from), reference.size());
    const std::string token = unescaped(std::string_view(reference).substr(from, slash - from));
    const Json* next = nullptr;
    if (at->is_object() && at->contains(token)) next = &(*at)[token];
    if (at->is_array() && !token.empty() && token.size() < 6 && token.find_first_not_of("0123456789") == std::string::npos &&
        std::stoul(token) < at->size())
      next = &(*at)[std::stoul(token)];
    if (next == nullptr) {
      fail(schema, "$ref", "$ref \"" + reference.substr(0, 100) + "\" leads nowhere: \"" + token.substr(0, 100) + "\" is not there");
      return nullptr;
    }
    at = next;
    place += "." + token;
    from = slash + 1;
  }
  paths_.try_emplace(at, place);
  return at;
}

std::vector<const Json*> SchemaDocument::take_one_ofs() { return std::exchange(one_ofs_, {}); }

uint32_t SchemaDocument::types(const Schemas& alternative, bool implied) {
  uint32_t all = kAllTypes;
  uint32_t hints = 0;
  bool typed = false;
  for (const Json* schema : alternative) {
    if (schema->contains("type")) {
      const Json& names = (*schema)["type"];
      uint32_t own = type_named(names);
      if (names.is_array())
        for (const Json& name : names) own |= type_named(name);
      if (schema->value("nullable", Json(false)) == true) own |= kNull;
      all &= own;
      typed = true;
    }
    if (schema->contains("enum") || schema->contains("const")) {
      uint32_t own = 0;
      if (schema->contains("const")) own = type_of((*schema)["const"]);
      else
        for (const Json& value : (*schema)["enum"]) own |= type_of(value);
      all &= own;
      typed = true;
    }
    for (const auto& [keyword, value] : schema->items()) {
      const StringFormat* format = keyword == "format" && value.is_string() ? find_format(value.get<std::string>()) : nullptr;
      hints |= format != nullptr && !format->pattern.empty() ? static_cast<uint32_t>(kString) : implied_by(keyword);
    }
  }
  return implied && !typed && hints != 0 ? all & hints : all;
}

bool SchemaDocument::reach(Expansion* expansion, const Json& schema, int32_t from) {
  if (schema.is_boolean()) return schema.get<bool>();
  for (int32_t at = from; at >= 0; at = expansion->reached[static_cast<size_t>(at)].from)
    if (expansion->reached[static_cast<size_t>(at)].schema == &schema) {
      fail(schema, "", "$ref leads back to the same place without a property or an item between");
      return false;
    }
  expansion->reached.push_back({&schema, from});
  return context_.work(1);
}

/// Takes in what is reached without a choice. False when nothing can meet it.
bool SchemaDocument::follow(Expansion* e) {
  for (; e->next < e->reached.size(); ++e->next) {
    const auto here = static_cast<int32_t>(e->next);
    const Json& schema = *e->reached[e->next].schema;
    if (!check(schema)) return false;
    if (std::find(e->out.begin(), e->out.end(), &schema) != e->out.end()) continue;
    e->out.push_back(&schema);
    if (schema.contains("$ref")) {
      const Json* target = resolve(schema, schema["$ref"].get<std::string>());
      if (target == nullptr || !reach(e, *target, here)) return false;
    }
    if (schema.contains("allOf"))
      for (size_t i = 0; i < schema["allOf"].size(); ++i)
        if (!reach(e, child(schema, "allOf", i), here)) return false;
    if (schema.contains("anyOf")) e->choices.push_back({&schema, "anyOf", here});
    if (schema.contains("oneOf")) {
      e->choices.push_back({&schema, "oneOf", here});
      one_ofs_.push_back(&schema);
    }
  }
  return true;
}

std::vector<Schemas> SchemaDocument::alternatives(const Schemas& schemas) {
  std::vector<Schemas> out;
  std::set<Schemas> seen;
  Expansion first;
  for (const Json* schema : schemas)
    if (!reach(&first, *schema, -1)) return {};
  std::vector<Expansion> open;
  open.push_back(std::move(first));
  // Depth first and in order, so that alternatives come in the order of the schema.
  while (!open.empty() && context_.work(8)) {
    Expansion e = std::move(open.back());
    open.pop_back();
    if (!follow(&e)) continue;
    if (e.choices.empty()) {
      Schemas key = e.out;
      std::sort(key.begin(), key.end());
      if (seen.insert(std::move(key)).second && types(e.out, true) != 0) out.push_back(std::move(e.out));
    } else {
      const Choice choice = e.choices.back();
      e.choices.pop_back();
      for (size_t i = (*choice.schema)[choice.keyword].size(); i-- > 0;) {
        Expansion branch = e;
        if (reach(&branch, child(*choice.schema, choice.keyword, i), choice.from)) open.push_back(std::move(branch));
      }
    }
    if (out.size() + open.size() > static_cast<size_t>(limits::kGrammarAlternatives)) {
      fail(*schemas[0], "", "more than " + std::to_string(limits::kGrammarAlternatives) +
                                " combinations of anyOf, oneOf and allOf; use fewer branches");
      return {};
    }
  }
  return context_.failed() ? std::vector<Schemas>{} : out;
}

}  // namespace slipstream::grammar
