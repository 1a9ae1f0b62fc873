// Whether a schema accepts a value that it names itself (enum, const): a small validator of the same keywords.
#include <algorithm>

#include "engine/grammar/schema_compiler.h"
#include "engine/grammar/schema_keywords.h"
#include "engine/text/unicode.h"

namespace slipstream::grammar {

namespace {

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

bool within(const Json& schema, const char* min, const char* max, int64_t count) {
  if (schema.contains(min) && schema[min] > count) return false;
  return !schema.contains(max) || schema[max] >= count;
}

/// 1 and 1.0 are equal, as are objects whose members come in another order.
bool same(const Json& a, const Json& b, int depth) {
  if (depth > 2 * limits::kGrammarDepth) return false;
  if (a.is_number() && b.is_number()) return a == b;
  if (a.type() != b.type()) return false;
  if (a.is_array())
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](const Json& x, const Json& y) { return same(x, y, depth + 1); });
  if (!a.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a.items())
    if (!b.contains(name) || !same(value, b[name], depth + 1)) return false;
  return true;
}

}  // namespace

bool SchemaCompiler::accepts(const Schemas& schemas, const Json& value, int depth) {
  return std::all_of(schemas.begin(), schemas.end(), [&](const Json* schema) { return accepts(*schema, value, depth); });
}

bool SchemaCompiler::accepts(const Json& schema, const Json& value, int depth) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object() || depth > 4 * limits::kGrammarDepth || !context_.work(4)) return false;
  if ((document_.types({&schema}, false) & type_of(value)) == 0) return false;
  if (schema.contains("const") && !same(schema["const"], value, 0)) return false;
  if (schema.contains("enum")) {
    context_.work(static_cast<int64_t>(schema["enum"].size()));
    if (std::none_of(schema["enum"].begin(), schema["enum"].end(), [&](const Json& one) { return same(one, value, 0); })) return false;
  }
  const auto branches = [&](const char* keyword) {
    return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                         [&](const Json& branch) { return accepts(branch, value, depth + 1); });
  };
  if (schema.contains("allOf") && branches("allOf") != static_cast<int64_t>(schema["allOf"].size())) return false;
  if (schema.contains("anyOf") && branches("anyOf") == 0) return false;
  if (schema.contains("oneOf") && branches("oneOf") != 1) return false;
  if (schema.contains("$ref")) {
    const Json* target = document_.resolve(schema, schema["$ref"].get<std::string>());
    if (target == nullptr || !accepts(*target, value, depth + 1)) return false;
  }
  if (value.is_array()) return accepts_array(schema, value, depth);
  if (value.is_object()) return accepts_object(schema, value, depth);
  return accepts_scalar(schema, value);
}

bool SchemaCompiler::accepts_scalar(const Json& schema, const Json& value) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (!within(schema, "minLength", "maxLength", characters(text))) return false;
    if (schema.contains("pattern") && !pattern(schema["pattern"].get<std::string>(), schema, "pattern").matches(text)) return false;
    const StringFormat* known = schema.contains("format") ? find_format(schema["format"].get<std::string>()) : nullptr;
    return known == nullptr || known->pattern.empty() || format(std::string(known->name)).matches(text);
  }
  if (!value.is_number()) return true;
  if (schema.contains("minimum") && value < schema["minimum"]) return false;
  if (schema.contains("maximum") && value > schema["maximum"]) return false;
  if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return false;
  if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return false;
  if (!schema.contains("multipleOf")) return true;
  const auto number = decimal(value.dump());
  const auto step = decimal(schema["multipleOf"].dump());
  if (!number || !step) return false;
  NumberRange multiples;
  multiples.multiples = {*step};
  const std::string magnitude = number->whole + (number->fraction.empty() ? "" : "." + number->fraction);
  return number_automaton(multiples, e_).matches(magnitude);
}

bool SchemaCompiler::accepts_array(const Json& schema, const Json& value, int depth) {
  if (!within(schema, "minItems", "maxItems", static_cast<int64_t>(value.size()))) return false;
  const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < prefix && !accepts(schema["prefixItems"][i], value[i], depth + 1)) return false;
    if (i >= prefix && schema.contains("items") && !accepts(schema["items"], value[i], depth + 1)) return false;
    if (schema.contains("uniqueItems") && schema["uniqueItems"] == true)
      for (size_t j = 0; j < i && context_.work(1); ++j)
        if (same(value[i], value[j], 0)) return false;
  }
  return true;
}

bool SchemaCompiler::accepts_object(const Json& schema, const Json& value, int depth) {
  if (!within(schema, "minProperties", "maxProperties", static_cast<int64_t>(value.size()))) return false;
  if (schema.contains("required"))
    for (const Json& name : schema["required"])
      if (!value.contains(name.get<std::string>())) return false;
  for (const auto& [name, member] : value.items()) {
    bool known = false;
    if (schema.contains("propertyNames") && !accepts(schema["propertyNames"], Json(name), depth + 1)) return false;
    if (schema.contains("properties") && schema["properties"].contains(name)) {
      known = true;
      if (!accepts(schema["properties"][name], member, depth + 1)) return false;
    }
    if (schema.contains("patternProperties"))
      for (const auto& [expression, part] : schema["patternProperties"].items())
        if (pattern(expression, schema, "patternProperties").matches(name)) {
          known = true;
          if (!accepts(part, member, depth + 1)) return false;
        }
    if (!known && schema.contains("additionalProperties") && !accepts(schema["additionalProperties"], member, depth + 1))
      return false;
  }
  return true;
}

}  // namespace slipstream::grammar
