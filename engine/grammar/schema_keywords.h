// The JSON Schema subset as a table: what is enforced, what says nothing about a value, what is refused.
// docs/compatibility.md is made from it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace slipstream::grammar {

enum class KeywordUse : uint8_t {
  kEnforced,
  kAnnotation,  // accepted, changes no text
  kRefused,     // an error that names it
};

struct SchemaKeyword {
  std::string_view name;
  KeywordUse use;
  std::string_view note;
};

std::span<const SchemaKeyword> schema_keywords();
/// Null for a keyword that no JSON Schema knows. Names with x- in front are annotations.
const SchemaKeyword* find_keyword(std::string_view name);

struct StringFormat {
  std::string_view name;
  std::string_view pattern;  // of the whole text; empty: an annotation
  std::string_view note;
};

std::span<const StringFormat> string_formats();
const StringFormat* find_format(std::string_view name);

/// Both tables as JSON.
std::string schema_keywords_json();

}  // namespace slipstream::grammar
