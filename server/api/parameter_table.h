// Every request parameter of /v1/chat/completions and /v1/completions that we know, with what we do about it. The
// schema checks, docs/compatibility.md and the limit tests are made from this table; a name that is not here is
// unknown: accepted, counted and logged once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace slipstream::api {

enum class Treatment : uint8_t {
  kUsed,      // has its documented effect
  kAccepted,  // type-checked, no effect on text: documented as such
  kRefused,   // 400 unsupported_parameter, unless null or one of `neutral`
};

enum class Type : uint8_t { kAny, kBool, kInt, kFloat, kString, kList, kObject, kStringOrList };

enum Endpoint : uint8_t { kChat = 1, kCompletions = 2, kBoth = 3 };

struct Parameter {
  std::string_view name;
  Endpoint endpoints;
  Treatment treatment;
  Type type;
  double min = 0, max = 0;            // inclusive, of kInt and kFloat; both 0: not bounded by the table
  bool min_excluded = false;
  std::string_view note;              // kUsed: meaning; kAccepted: why harmless; kRefused: the alternative
  std::string_view neutral = "";      // kRefused: values that change nothing, as JSON texts separated by '|'
  std::string_view alias_of = "";
};

std::span<const Parameter> parameters();
/// Null for an unknown name, or one of the other endpoint only.
const Parameter* find_parameter(std::string_view name, Endpoint endpoint);
/// The table as a JSON array, for docs and tests.
std::string parameter_table_json();

}  // namespace slipstream::api
