// See output_fields.h.
#include "server/api/output_fields.h"

#include "config/limits.h"
#include "server/api/request_fields.h"

namespace slipstream::api {
namespace {

using grammar::Format;
using grammar::Whitespace;

/// A schema as an object (or true), or as its JSON text.
Result<Format> schema_format(const Json& value, const std::string& param, Whitespace whitespace = {}) {
  if (value.is_object() || value.is_boolean()) return Format::json_schema(value.dump(), param, std::move(whitespace));
  if (!value.is_string()) return invalid_argument("a JSON schema must be an object or its text", param);
  return Format::json_schema(value.get<std::string>(), param, std::move(whitespace));
}

Result<std::string> text_of(const Json& value, const std::string& param) {
  if (!value.is_string()) return invalid_argument(param + " must be a string", param);
  return value.get<std::string>();
}

Result<Format> choice_format(const Json& value, const std::string& param) {
  if (!value.is_array() || value.empty()) return invalid_argument(param + " must be a list of at least one string", param);
  std::vector<std::string> texts;
  for (size_t i = 0; i < value.size(); ++i) {
    if (!value[i].is_string()) return invalid_argument("a choice must be a string", param + "." + std::to_string(i));
    texts.push_back(value[i].get<std::string>());
  }
  return Format::choice(texts, param);
}

Result<Format> tag_format(const Json& value, const std::string& param) {
  if (value.is_string()) return grammar::parse_structural_tag(value.get_ref<const std::string&>(), param);
  if (!value.is_object()) return invalid_argument(param + " must be an object or its JSON text", param);
  return grammar::parse_structural_tag(value.dump(), param);
}

/// One of the ways to name a format, by its member of structured_outputs.
Result<Format> named_format(const std::string& name, const Json& value, const std::string& param, const Whitespace& whitespace) {
  if (name == "json") return schema_format(value, param, whitespace);
  if (name == "choice") return choice_format(value, param);
  if (name == "structural_tag") return tag_format(value, param);
  SLIP_TRY(std::string text, text_of(value, param));
  return name == "regex" ? Format::regex(std::move(text), param) : Format::ebnf(std::move(text), param);
}

/// Formats found so far: a second one is refused.
class OneFormat {
 public:
  Status add(std::string_view field, Format format) {
    if (format_)
      return invalid_argument(std::string(field) + " and " + field_ + " both ask for an output format; give one", std::string(field));
    field_ = field;
    format_ = std::move(format);
    return Ok{};
  }
  std::optional<Format> take() { return std::move(format_); }

 private:
  std::string field_;
  std::optional<Format> format_;
};

Result<Whitespace> whitespace_pattern(const Json& value, const std::string& param) {
  SLIP_TRY(std::string text, text_of(value, param));
  return Whitespace{Whitespace::Kind::kPattern, std::move(text)};
}

Status read_structured_outputs(const Json& object, OneFormat* format) {
  Whitespace whitespace;
  for (const auto& [name, value] : object.items()) {
    const std::string param = "structured_outputs." + name;
    if (value.is_null()) continue;
    if (name == "whitespace_pattern") {
      SLIP_TRY(whitespace, whitespace_pattern(value, param));
    } else if (name == "disable_any_whitespace") {
      if (!value.is_boolean()) return invalid_argument(param + " must be true or false", param);
      if (value.get<bool>()) whitespace.kind = Whitespace::Kind::kFixed;
    }
  }
  for (const auto& [name, value] : object.items()) {
    const std::string param = "structured_outputs." + name;
    if (value.is_null() || name == "whitespace_pattern" || name == "disable_any_whitespace") continue;
    if (name == "disable_fallback" || name == "backend") continue;  // there is one engine, and it never falls back
    if (name == "json_object") {
      if (!value.is_boolean()) return invalid_argument(param + " must be true or false", param);
      if (value.get<bool>()) SLIP_RETURN_IF_ERROR(format->add(param, Format::json_object(whitespace)));
    } else if (name == "json" || name == "regex" || name == "choice" || name == "grammar" || name == "structural_tag") {
      SLIP_TRY(Format one, named_format(name, value, param, whitespace));
      SLIP_RETURN_IF_ERROR(format->add(param, std::move(one)));
    } else {
      return invalid_argument(param + " is not known: use json, json_object, regex, choice, grammar or structural_tag", param);
    }
  }
  return Ok{};
}

Status read_words(const Fields& fields, GenerationRequest* out) {
  const Json* words = fields.find("bad_words");
  if (!words) return Ok{};
  if (words->size() > static_cast<size_t>(limits::kBadWords))
    return invalid_argument("bad_words holds " + std::to_string(words->size()) + " words; the limit is " +
                                std::to_string(limits::kBadWords),
                            "bad_words");
  for (size_t i = 0; i < words->size(); ++i) {
    const std::string param = "bad_words." + std::to_string(i);
    if (!(*words)[i].is_string()) return invalid_argument("a bad word must be a string", param);
    const auto& word = (*words)[i].get_ref<const std::string&>();
    if (word.empty() || word.size() > static_cast<size_t>(limits::kBadWordBytes))
      return invalid_argument("a bad word must have 1 to " + std::to_string(limits::kBadWordBytes) + " bytes", param);
    out->bad_words.push_back(word);
  }
  return Ok{};
}

Status read_allowed(const Fields& fields, int32_t vocab, GenerationRequest* out) {
  const Json* ids = fields.find("allowed_token_ids");
  if (!ids) return Ok{};
  if (ids->empty()) return invalid_argument("allowed_token_ids is an empty list: no token could be drawn", "allowed_token_ids");
  SLIP_TRY(out->allowed_token_ids, read_token_ids(*ids, "allowed_token_ids", vocab));
  return Ok{};
}

}  // namespace

Result<std::optional<Format>> read_response_format(const Json& value, const std::string& param, bool flat) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  if (!value.is_object() || type == value.end() || !type->is_string())
    return invalid_argument(param + " must be an object with a type: text, json_object, json_schema or structural_tag",
                            value.is_object() ? param + ".type" : param);
  const std::string name = type->get<std::string>();
  if (name == "text") return std::optional<Format>();
  if (name == "structural_tag") {
    SLIP_TRY(Format format, grammar::parse_structural_tag(value.dump(), param));
    return std::optional<Format>(std::move(format));
  }
  if (name == "json_object") {  // llama.cpp takes a schema here too
    const auto schema = value.find("schema");
    if (schema == value.end() || schema->is_null()) return std::optional<Format>(Format::json_object());
    SLIP_TRY(Format format, schema_format(*schema, param + ".schema"));
    return std::optional<Format>(std::move(format));
  }
  if (name != "json_schema")
    return invalid_argument(param + ".type is not known: use text, json_object, json_schema or structural_tag", param + ".type");
  const std::string at = flat ? param : param + ".json_schema";
  const auto holder = flat ? value.end() : value.find("json_schema");
  if (!flat && (holder == value.end() || !holder->is_object())) return invalid_argument(at + " must be an object with a schema", at);
  const Json& described = flat ? value : *holder;
  for (const char* key : {"name", "description"})
    if (const auto text = described.find(key); text != described.end() && !text->is_null() && !text->is_string())
      return invalid_argument(at + "." + key + " must be a string", at + "." + key);
  if (const auto strict = described.find("strict"); strict != described.end() && !strict->is_null() && !strict->is_boolean())
    return invalid_argument(at + ".strict must be true or false", at + ".strict");
  const auto schema = described.find("schema");
  if (schema == described.end() || schema->is_null()) return invalid_argument(at + ".schema is missing", at + ".schema");
  SLIP_TRY(Format format, schema_format(*schema, at + ".schema"));
  return std::optional<Format>(std::move(format));
}

Status read_output_fields(const Json& body, Endpoint endpoint, int32_t vocab, GenerationRequest* out) {
  const Fields fields(body, endpoint);
  OneFormat format;
  if (const Json* value = fields.find("response_format")) {
    SLIP_TRY(auto one, read_response_format(*value, "response_format", /*flat=*/false));
    if (one) SLIP_RETURN_IF_ERROR(format.add("response_format", std::move(*one)));
  }
  if (const Json* value = fields.find("structured_outputs")) SLIP_RETURN_IF_ERROR(read_structured_outputs(*value, &format));
  Whitespace whitespace;
  if (const Json* value = fields.find("guided_whitespace_pattern")) {
    SLIP_TRY(whitespace, whitespace_pattern(*value, "guided_whitespace_pattern"));
  }
  // vLLM's older names; then those of SGLang and llama.cpp
  for (const auto& [field, name] : {std::pair{"guided_json", "json"}, std::pair{"guided_regex", "regex"},
                                    std::pair{"guided_choice", "choice"}, std::pair{"guided_grammar", "grammar"},
                                    std::pair{"json_schema", "json"}, std::pair{"regex", "regex"}, std::pair{"ebnf", "grammar"},
                                    std::pair{"grammar", "grammar"}, std::pair{"structural_tag", "structural_tag"}}) {
    const Json* value = fields.find(field);
    if (!value) continue;
    SLIP_TRY(Format one, named_format(name, *value, field, whitespace));
    SLIP_RETURN_IF_ERROR(format.add(field, std::move(one)));
  }
  out->output = format.take();
  SLIP_RETURN_IF_ERROR(read_allowed(fields, vocab, out));
  SLIP_RETURN_IF_ERROR(read_words(fields, out));
  return Ok{};
}

}  // namespace slipstream::api
