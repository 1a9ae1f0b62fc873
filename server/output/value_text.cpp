// See value_text.h.
#include "server/output/value_text.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "server/json_guard.h"
#include "server/json_text.h"

namespace slipstream::output {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() && std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

bool is_number(std::string_view text) {
  return !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) && is_json(text);
}

std::optional<std::string> scalar_json(std::string_view text, uint8_t kinds) {
  if ((kinds & kNull) && (equals_ignoring_case(text, "null") || equals_ignoring_case(text, "none"))) return "null";
  if ((kinds & kBoolean) && equals_ignoring_case(text, "true")) return "true";
  if ((kinds & kBoolean) && equals_ignoring_case(text, "false")) return "false";
  if (!(kinds & (kInteger | kNumber)) || !is_number(text)) return std::nullopt;
  const bool integer = text.find_first_of(".eE") == std::string_view::npos;
  if (integer || (kinds & kNumber)) return std::string(text);
  return std::nullopt;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_json(std::string_view text) { return check_json(text).ok(); }

void append_escaped(std::string* out, std::string_view text) {
  std::string literal;
  json_text::append_string(literal, text);
  out->append(literal, 1, literal.size() - 2);
}

std::optional<std::string> json_string(std::string_view literal) {
  if (literal.empty() || literal[0] != '"' || !is_json(literal)) return std::nullopt;
  const auto value = nlohmann::json::parse(literal, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::string value_json(std::string_view raw, uint8_t kinds) {
  const std::string_view text = trimmed(raw);
  if (auto scalar = scalar_json(text, kinds)) return *scalar;
  const char first = text.empty() ? '\0' : text[0];
  if ((first == '{' && (kinds & kObject)) || (first == '[' && (kinds & kArray))) {
    if (is_json(text)) return std::string(text);
    if (auto python = python_json(text); python && python->front() == first) return *python;
  }
  // where no string is allowed, a literal with its quotes was meant as one all the same
  if (first == '"' && kinds == kAnyKind)
    if (json_string(text)) return std::string(text);
  return json_text::quoted(raw);
}

}  // namespace slipstream::output
