// Formats as values: their makers and their key.
#include "engine/grammar/format.h"

#include "engine/text/tokenizer.h"

namespace slipstream::grammar {

namespace {

Format of(Format::Kind kind, std::string text = {}, std::string param = {}, Whitespace whitespace = {}) {
  Format format;
  format.kind = kind;
  format.text = std::move(text);
  format.param = std::move(param);
  format.whitespace = std::move(whitespace);
  return format;
}

/// Length first: so no text runs into the next.
void append(std::string* key, std::string_view text) {
  *key += std::to_string(text.size());
  *key += ':';
  *key += text;
}

void append(std::string* key, const Format& format) {
  *key += static_cast<char>('a' + static_cast<int>(format.kind));
  append(key, format.text);
  *key += std::to_string(format.token) + "," + std::to_string(format.min) + "," + std::to_string(format.max) + ",";
  *key += static_cast<char>('0' + static_cast<int>(format.whitespace.kind));
  append(key, format.whitespace.pattern);
  *key += std::to_string(format.texts.size()) + "[";
  for (const std::string& text : format.texts) append(key, text);
  *key += std::to_string(format.parts.size()) + "(";
  for (const Format& part : format.parts) append(key, part);
}

}  // namespace

Format Format::json_object(Whitespace whitespace) { return of(Kind::kJsonObject, {}, {}, std::move(whitespace)); }

Format Format::json_schema(std::string schema, std::string param, Whitespace whitespace) {
  return of(Kind::kJsonSchema, std::move(schema), std::move(param), std::move(whitespace));
}

Format Format::xml_parameters(std::string schema, std::string param, Whitespace whitespace) {
  return of(Kind::kXmlParameters, std::move(schema), std::move(param), std::move(whitespace));
}

Format Format::regex(std::string pattern, std::string param) { return of(Kind::kRegex, std::move(pattern), std::move(param)); }

Format Format::ebnf(std::string source, std::string param) { return of(Kind::kEbnf, std::move(source), std::move(param)); }

Format Format::choice(const std::vector<std::string>& texts, std::string param) {
  Format format = of(Kind::kAnyOf, {}, std::move(param));
  for (const std::string& text : texts) format.parts.push_back(literal(text));
  return format;
}

Format Format::literal(std::string text) { return of(Kind::kText, std::move(text)); }

Format Format::special_token(int32_t id) {
  Format format = of(Kind::kToken);
  format.token = id;
  return format;
}

Format Format::marker(const Tokenizer& tokenizer, std::string_view text) {
  const int32_t id = tokenizer.token_id(text);
  return id >= 0 && tokenizer.is_special(id) ? special_token(id) : literal(std::string(text));
}

Format Format::free_text(std::vector<std::string> excluding) {
  Format format = of(Kind::kFreeText);
  format.texts = std::move(excluding);
  return format;
}

Format Format::sequence(std::vector<Format> parts) {
  Format format = of(Kind::kSequence);
  format.parts = std::move(parts);
  return format;
}

Format Format::any_of(std::vector<Format> parts) {
  Format format = of(Kind::kAnyOf);
  format.parts = std::move(parts);
  return format;
}

Format Format::repeat(Format part, int32_t min, int32_t max) {
  Format format = of(Kind::kRepeat);
  format.parts.push_back(std::move(part));
  format.min = min;
  format.max = max;
  return format;
}

std::string Format::key() const {
  std::string key;
  append(&key, *this);
  return key;
}

Format tagged(const Tag& tag) {
  Format content = tag.content;
  const bool free = content.kind == Format::Kind::kFreeText && content.texts.empty();
  if (free && tag.end.kind == Format::Kind::kText && !tag.end.text.empty()) content.texts = {tag.end.text};
  return Format::sequence({tag.begin, std::move(content), tag.end});
}

Result<Format> triggered_tags(const std::vector<std::string>& triggers, const std::vector<Tag>& tags, TagOptions options,
                              const std::string& param) {
  std::vector<Format> ways;
  std::vector<bool> used(triggers.size(), false);
  for (const Tag& tag : tags) {
    ways.push_back(tagged(tag));
    if (tag.begin.kind != Format::Kind::kText) continue;
    bool triggered = false;
    for (size_t i = 0; i < triggers.size(); ++i)
      if (!triggers[i].empty() && tag.begin.text.starts_with(triggers[i])) triggered = used[i] = true;
    if (!triggered)
      return invalid_argument("the tag that begins with \"" + tag.begin.text.substr(0, 100) + "\" has no trigger that it starts with", param);
  }
  for (size_t i = 0; i < triggers.size(); ++i)
    if (!used[i]) return invalid_argument("no tag begins with the trigger \"" + triggers[i].substr(0, 100) + "\"", param);
  const Format text = Format::free_text(triggers), one = Format::any_of(std::move(ways));
  if (options.stop_after_first)
    return Format::sequence({text, options.at_least_one ? one : Format::repeat(one, 0, 1)});
  return Format::sequence({text, Format::repeat(Format::sequence({one, text}), options.at_least_one ? 1 : 0, -1)});
}

Format separated_tags(const std::vector<Tag>& tags, const Format& separator, TagOptions options) {
  std::vector<Format> ways;
  for (const Tag& tag : tags) ways.push_back(tagged(tag));
  const Format one = Format::any_of(std::move(ways));
  Format all = options.stop_after_first
                   ? one
                   : Format::sequence({one, Format::repeat(Format::sequence({separator, one}), 0, -1)});
  return options.at_least_one ? all : Format::repeat(std::move(all), 0, 1);
}

}  // namespace slipstream::grammar
