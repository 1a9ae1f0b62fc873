// What each keyword's value may be. A schema is checked when it is first reached.
#include "engine/grammar/schema_document.h"
#include "engine/grammar/schema_keywords.h"

namespace slipstream::grammar {

namespace {

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool all_schemas(const Json& value) {
  for (const Json& part : value)
    if (!is_schema(part)) return false;
  return true;
}

/// Null when the value is as it should be, else what it should be.
const char* wanted(const std::string& keyword, const Json& value) {
  static const std::string kCounts = " minLength maxLength minItems maxItems minProperties maxProperties ";
  static const std::string kNumbers = " minimum maximum exclusiveMinimum exclusiveMaximum multipleOf ";
  static const std::string kMaps = " properties patternProperties $defs definitions ";
  static const std::string kLists = " anyOf oneOf allOf prefixItems ";
  static const std::string kSchemas = " items additionalProperties propertyNames ";
  const std::string word = " " + keyword + " ";
  if (kCounts.find(word) != std::string::npos)
    return value.is_number_integer() && value >= 0 ? nullptr : "a number from 0 on";
  if (kNumbers.find(word) != std::string::npos) return value.is_number() ? nullptr : "a number";
  if (kMaps.find(word) != std::string::npos)
    return value.is_object() && all_schemas(value) ? nullptr : "an object of schemas";
  if (kLists.find(word) != std::string::npos)
    return value.is_array() && !value.empty() && all_schemas(value) ? nullptr : "a list of schemas that is not empty";
  if (kSchemas.find(word) != std::string::npos) return is_schema(value) ? nullptr : "a schema";
  if (keyword == "enum") return value.is_array() && !value.empty() ? nullptr : "a list that is not empty";
  if (keyword == "uniqueItems" || keyword == "nullable") return value.is_boolean() ? nullptr : "true or false";
  if (keyword == "pattern" || keyword == "format" || keyword == "$ref") return value.is_string() ? nullptr : "a string";
  if (keyword == "required") {
    if (!value.is_array()) return "a list of names";
    for (const Json& name : value)
      if (!name.is_string()) return "a list of names";
  }
  return nullptr;
}

const char* wanted_type(const Json& type) {
  static constexpr const char* kWanted = "null, boolean, integer, number, string, array or object, or a list of these";
  static const std::string kNames = " null boolean integer number string array object ";
  const auto named = [&](const Json& name) {
    return name.is_string() && kNames.find(" " + name.get<std::string>() + " ") != std::string::npos;
  };
  if (!type.is_array()) return named(type) ? nullptr : kWanted;
  for (const Json& name : type)
    if (!named(name)) return kWanted;
  return type.empty() ? kWanted : nullptr;
}

}  // namespace

void SchemaDocument::check_value(const Json& schema, const std::string& keyword, const Json& value) {
  const char* want = keyword == "type" ? wanted_type(value) : wanted(keyword, value);
  if (want != nullptr) return fail(schema, keyword, keyword + " is " + shown(value) + "; it must be " + want);
  if (keyword.starts_with("min") || keyword.starts_with("max")) {
    const bool count = keyword != "minimum" && keyword != "maximum";
    const int64_t most = keyword.starts_with("min") ? limits::kGrammarRepeat : int64_t{1} << 40;
    if (count && value > most) fail(schema, keyword, keyword + " is " + shown(value) + "; at most " + std::to_string(most) + " is supported");
  }
  if (keyword == "format" && find_format(value.get<std::string>()) == nullptr) {
    std::string known;
    for (const StringFormat& format : string_formats())
      if (!format.pattern.empty()) known += (known.empty() ? "" : ", ") + std::string(format.name);
    fail(schema, keyword, "format " + shown(value) + " is not supported; known are " + known + "; or use pattern");
  }
}

bool SchemaDocument::check(const Json& schema) {
  const auto [at, first] = checked_.try_emplace(&schema, true);
  if (!first) return at->second;
  if (!is_schema(schema)) fail(schema, "", "a schema is an object, true or false, not " + shown(schema));
  if (schema.is_object())
    for (const auto& [keyword, value] : schema.items()) {
      if (!context_.work(1)) break;
      const SchemaKeyword* known = find_keyword(keyword);
      if (known == nullptr && !keyword.starts_with("x-"))
        fail(schema, keyword, "unknown keyword \"" + keyword.substr(0, 100) + "\"; remove it");
      else if (known != nullptr && known->use == KeywordUse::kRefused)
        fail(schema, keyword, "the keyword \"" + keyword + "\" is not supported" +
                                  (known->note.empty() ? "; remove it" : "; " + std::string(known->note)));
      else if (known != nullptr && known->use == KeywordUse::kEnforced)
        check_value(schema, keyword, value);
    }
  return at->second = !context_.failed();
}

}  // namespace slipstream::grammar
