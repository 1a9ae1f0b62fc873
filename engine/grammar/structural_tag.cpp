// The request field structural_tag, in both of its forms, as a Format.
#include <nlohmann/json.hpp>

#include "config/limits.h"
#include "engine/grammar/format.h"

namespace slipstream::grammar {

namespace {

using Json = nlohmann::ordered_json;

class TagReader {
 public:
  Result<Format> read(const Json& json, const std::string& param) {
    if (json.contains("structures")) return structures(json, param);
    if (!json.is_object() || !json.contains("format"))
      return invalid_argument("structural_tag needs \"structures\" and \"triggers\", or \"type\": \"structural_tag\" and \"format\"", param);
    return format(json["format"], param + ".format", 0);
  }

 private:
  static Error wrong(const std::string& param, const std::string& what) { return invalid_argument("structural tag: " + what, param); }

  Result<const Json*> member(const Json& json, const char* name, Json::value_t type, const std::string& param) {
    static const std::map<Json::value_t, const char*> kNames{
        {Json::value_t::string, "a string"}, {Json::value_t::array, "a list"}, {Json::value_t::object, "an object"}};
    if (!json.is_object() || !json.contains(name) || json[name].type() != type)
      return wrong(param + "." + name, std::string(name) + " must be " + kNames.at(type));
    return &json[name];
  }

  Result<std::string> text(const Json& json, const char* name, const std::string& param) {
    SLIP_TRY(const Json* value, member(json, name, Json::value_t::string, param));
    return value->get<std::string>();
  }

  Result<bool> flag(const Json& json, const char* name, const std::string& param) {
    if (!json.contains(name)) return false;
    if (!json[name].is_boolean()) return wrong(param + "." + name, std::string(name) + " must be true or false");
    return json[name].get<bool>();
  }

  Result<std::string> schema(const Json& json, const char* name, const std::string& param) {
    if (!json.contains(name) || (!json[name].is_object() && !json[name].is_boolean()))
      return wrong(param + "." + name, std::string(name) + " must be a JSON schema");
    return json[name].dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  Result<std::vector<std::string>> texts(const Json& json, const char* name, const std::string& param) {
    SLIP_TRY(const Json* list, member(json, name, Json::value_t::array, param));
    std::vector<std::string> out;
    for (const Json& value : *list) {
      if (!value.is_string() || value.get<std::string>().empty())
        return wrong(param + "." + name, std::string(name) + " must be strings that are not empty");
      out.push_back(value.get<std::string>());
    }
    return out;
  }

  Result<TagOptions> options(const Json& json, const std::string& param) {
    TagOptions out;
    SLIP_TRY(out.at_least_one, flag(json, "at_least_one", param));
    SLIP_TRY(out.stop_after_first, flag(json, "stop_after_first", param));
    return out;
  }

  /// Nothing that a client says is dropped.
  Status only(const Json& json, std::initializer_list<const char*> known, const std::string& param) {
    for (const auto& [name, value] : json.items()) {
      bool found = false;
      for (const char* one : known) found = found || name == one;
      if (!found) return wrong(param + "." + name.substr(0, 100), "\"" + name.substr(0, 100) + "\" is not a member of this part; remove it");
    }
    return Ok{};
  }

  Result<Format> structures(const Json& json, const std::string& param) {
    SLIP_RETURN_IF_ERROR(only(json, {"type", "structures", "triggers"}, param));
    SLIP_TRY(const Json* list, member(json, "structures", Json::value_t::array, param));
    SLIP_TRY(const std::vector<std::string> triggers, texts(json, "triggers", param));
    std::vector<Tag> tags;
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string place = param + ".structures." + std::to_string(i);
      const Json& one = (*list)[i];
      if (!one.is_object()) return wrong(place, "a structure must be an object");
      SLIP_RETURN_IF_ERROR(only(one, {"begin", "schema", "end"}, place));
      SLIP_TRY(std::string begin, text(one, "begin", place));
      SLIP_TRY(std::string end, text(one, "end", place));
      SLIP_TRY(std::string content, schema(one, "schema", place));
      tags.push_back({Format::literal(std::move(begin)), Format::json_schema(std::move(content), place + ".schema"),
                      Format::literal(std::move(end))});
    }
    if (tags.empty()) return wrong(param + ".structures", "structures must not be empty");
    return triggered_tags(triggers, tags, {}, param + ".triggers");
  }

  Result<std::vector<Format>> parts(const Json& json, const char* name, const std::string& param, int depth) {
    SLIP_TRY(const Json* list, member(json, name, Json::value_t::array, param));
    if (list->empty()) return wrong(param + "." + name, std::string(name) + " must not be empty");
    std::vector<Format> out;
    for (size_t i = 0; i < list->size(); ++i) {
      SLIP_TRY(Format part, format((*list)[i], param + "." + name + "." + std::to_string(i), depth + 1));
      out.push_back(std::move(part));
    }
    return out;
  }

  Result<Tag> tag(const Json& json, const std::string& param, int depth) {
    if (!json.is_object()) return wrong(param, "a tag must be an object");
    SLIP_RETURN_IF_ERROR(only(json, {"type", "begin", "content", "end"}, param));
    SLIP_TRY(std::string begin, text(json, "begin", param));
    SLIP_TRY(std::string end, text(json, "end", param));
    if (!json.contains("content")) return wrong(param + ".content", "content is missing");
    SLIP_TRY(Format content, format(json["content"], param + ".content", depth + 1));
    return Tag{Format::literal(std::move(begin)), std::move(content), Format::literal(std::move(end))};
  }

  Result<std::vector<Tag>> tags(const Json& json, const std::string& param, int depth) {
    SLIP_TRY(const Json* list, member(json, "tags", Json::value_t::array, param));
    if (list->empty()) return wrong(param + ".tags", "tags must not be empty");
    std::vector<Tag> out;
    for (size_t i = 0; i < list->size(); ++i) {
      SLIP_TRY(Tag one, tag((*list)[i], param + ".tags." + std::to_string(i), depth));
      out.push_back(std::move(one));
    }
    return out;
  }

  Result<Format> format(const Json& json, const std::string& param, int depth) {
    if (depth > limits::kGrammarDepth)
      return wrong(param, "formats nest deeper than " + std::to_string(limits::kGrammarDepth));
    SLIP_TRY(const std::string type, text(json, "type", param));
    if (type == "sequence" || type == "or") {
      SLIP_RETURN_IF_ERROR(only(json, {"type", "elements"}, param));
      SLIP_TRY(std::vector<Format> elements, parts(json, "elements", param, depth));
      return type == "or" ? Format::any_of(std::move(elements)) : Format::sequence(std::move(elements));
    }
    if (type == "tag") {
      SLIP_TRY(const Tag one, tag(json, param, depth));
      return tagged(one);
    }
    if (type == "triggered_tags" || type == "tags_with_separator") return many_tags(json, type, param, depth);
    return leaf(json, type, param);
  }

  Result<Format> many_tags(const Json& json, const std::string& type, const std::string& param, int depth) {
    const bool triggered = type == "triggered_tags";
    SLIP_RETURN_IF_ERROR(only(json, {"type", "tags", triggered ? "triggers" : "separator", "at_least_one", "stop_after_first"}, param));
    SLIP_TRY(const std::vector<Tag> all, tags(json, param, depth));
    SLIP_TRY(const TagOptions how, options(json, param));
    if (!triggered) {
      SLIP_TRY(std::string separator, text(json, "separator", param));
      return separated_tags(all, Format::literal(std::move(separator)), how);
    }
    SLIP_TRY(const std::vector<std::string> triggers, texts(json, "triggers", param));
    return triggered_tags(triggers, all, how, param + ".triggers");
  }

  Result<Format> leaf(const Json& json, const std::string& type, const std::string& param) {
    const auto one = [&](const char* name) { return only(json, {"type", name}, param); };
    if (type == "any_text") {
      SLIP_RETURN_IF_ERROR(one("excludes"));
      if (!json.contains("excludes")) return Format::free_text();
      SLIP_TRY(std::vector<std::string> excluded, texts(json, "excludes", param));
      return Format::free_text(std::move(excluded));
    }
    if (type == "const_string") {
      SLIP_RETURN_IF_ERROR(one("value"));
      SLIP_TRY(std::string value, text(json, "value", param));
      return Format::literal(std::move(value));
    }
    if (type == "regex") {
      SLIP_RETURN_IF_ERROR(one("pattern"));
      SLIP_TRY(std::string pattern, text(json, "pattern", param));
      return Format::regex(std::move(pattern), param + ".pattern");
    }
    if (type == "grammar") {
      SLIP_RETURN_IF_ERROR(one("grammar"));
      SLIP_TRY(std::string source, text(json, "grammar", param));
      return Format::ebnf(std::move(source), param + ".grammar");
    }
    if (type == "json_schema" || type == "qwen_xml_parameter") {
      SLIP_RETURN_IF_ERROR(one("json_schema"));
      SLIP_TRY(std::string source, schema(json, "json_schema", param));
      return type == "json_schema" ? Format::json_schema(std::move(source), param + ".json_schema")
                                   : Format::xml_parameters(std::move(source), param + ".json_schema");
    }
    return wrong(param + ".type", "unknown format type \"" + type.substr(0, 100) +
                                      "\"; known are const_string, json_schema, qwen_xml_parameter, any_text, regex, grammar, tag, "
                                      "triggered_tags, tags_with_separator, sequence and or");
  }
};

/// Brackets outside strings: what the parser below must not recurse into.
bool nests_deeper(std::string_view text, int most) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') ++i;
    else if (text[i] == '"') in_string = !in_string;
    else if (!in_string && (text[i] == '{' || text[i] == '[') && ++depth > most) return true;
    else if (!in_string && (text[i] == '}' || text[i] == ']')) --depth;
  }
  return false;
}

}  // namespace

Result<Format> parse_structural_tag(std::string_view text, const std::string& param) {
  if (static_cast<int64_t>(text.size()) > limits::kGrammarSourceBytes)
    return invalid_argument("structural_tag has more than " + std::to_string(limits::kGrammarSourceBytes) + " bytes; shorten it", param);
  if (nests_deeper(text, 4 * limits::kGrammarDepth)) return invalid_argument("structural_tag nests too deep; flatten it", param);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return invalid_argument("structural_tag is not valid JSON", param);
  return TagReader().read(json, param);
}

}  // namespace slipstream::grammar
