// What an output may look like, as a value: JSON of a schema, a regular expression, a grammar, literal text, free text, and
// compositions of them. Knows no automaton, no vocabulary and no request; engine/grammar/grammar.h compiles it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace slipstream {
class Tokenizer;
}

namespace slipstream::grammar {

/// White space between the tokens of a JSON text.
struct Whitespace {
  enum class Kind : uint8_t {
    kFlexible,  // none, one space, or a line break and at most 32 spaces or tabs
    kFixed,     // one space after ',' and ':', none elsewhere: what json.dumps writes
    kPattern,   // `pattern`, a regular expression that matches white space only
  };
  Kind kind = Kind::kFlexible;
  std::string pattern;
};

/// One description, a tree. Texts are checked when it is compiled; errors carry the `param` of the part they are about.
struct Format {
  enum class Kind : uint8_t {
    kJsonObject,     // any JSON object
    kJsonSchema,     // text: the schema
    kRegex,          // text: the pattern, which the whole output matches
    kEbnf,           // text: GBNF or EBNF with a rule "root"
    kText,           // text, literally
    kToken,          // one token by its id: control tokens, which no text matches
    kFreeText,       // any text in which none of `texts` occurs
    kSequence,       // parts, one after the other
    kAnyOf,          // one of parts
    kRepeat,         // parts[0], min to max times (max -1: without end)
    kXmlParameters,  // text: a schema of an object; <parameter=name>\nvalue\n</parameter> for each property
  };

  Kind kind = Kind::kText;
  std::string text;
  std::string param;  // dotted path of the request field that this came from
  int32_t token = -1;
  int32_t min = 0, max = -1;
  Whitespace whitespace;
  std::vector<std::string> texts;
  std::vector<Format> parts;

  static Format json_object(Whitespace whitespace = {});
  static Format json_schema(std::string schema, std::string param = {}, Whitespace whitespace = {});
  static Format regex(std::string pattern, std::string param = {});
  static Format ebnf(std::string source, std::string param = {});
  /// One of these strings, exactly.
  static Format choice(const std::vector<std::string>& texts, std::string param = {});
  static Format literal(std::string text);
  static Format special_token(int32_t id);
  /// `text` as the model writes it: its control token where the vocabulary has one of that name, else its bytes.
  static Format marker(const Tokenizer& tokenizer, std::string_view text);
  static Format free_text(std::vector<std::string> excluding = {});
  static Format sequence(std::vector<Format> parts);
  static Format any_of(std::vector<Format> parts);
  static Format repeat(Format part, int32_t min, int32_t max);
  /// The parameters of a tool call in the XML of Qwen3-Coder and Qwen3.5: strings raw, other values as JSON.
  static Format xml_parameters(std::string schema, std::string param = {}, Whitespace whitespace = {});

  /// Equal descriptions have equal keys, others different ones. Without the params, which change no text.
  std::string key() const;
};

/// A part of the output that starts with `begin` and ends with `end`.
struct Tag {
  Format begin;    // literal text or a special token
  Format content;  // free text without exclusions ends before the first `end`
  Format end;      // literal text, a special token, or empty text
};

/// begin, content, end.
Format tagged(const Tag& tag);

struct TagOptions {
  bool at_least_one = false;      // the output may not be without a tag
  bool stop_after_first = false;  // nothing follows the first tag
};

/// Free text in which a trigger starts a tag: where one of `triggers` would be complete, the text goes on as one of the tags
/// whose begin starts with it. Special tokens that begin tags are triggers of their own. Every other tag needs a trigger:
/// kInvalidArgument names one that has none, and a trigger without a tag.
Result<Format> triggered_tags(const std::vector<std::string>& triggers, const std::vector<Tag>& tags, TagOptions options,
                              const std::string& param = {});
/// Tags with `separator` between them and nothing else.
Format separated_tags(const std::vector<Tag>& tags, const Format& separator, TagOptions options);

/// The request field `structural_tag`: {"structures": […], "triggers": […]} or {"type": "structural_tag", "format": {…}}.
Result<Format> parse_structural_tag(std::string_view text, const std::string& param);

}  // namespace slipstream::grammar
