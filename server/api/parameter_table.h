// Every request parameter of the generation endpoints that we know, with what we do about it; those of /v1/responses and
// /v1/messages stand in files of their own. The
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

enum Endpoint : uint8_t { kChat = 1, kCompletions = 2, kBoth = 3, kResponses = 4, kMessages = 8 };

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

/// Of chat and completions.
std::span<const Parameter> parameters();
std::span<const Parameter> responses_parameters();
std::span<const Parameter> messages_parameters();
/// The table that holds an endpoint's rows.
std::span<const Parameter> parameters_of(Endpoint endpoint);
/// Null for an unknown name, or one of the other endpoint only.
const Parameter* find_parameter(std::string_view name, Endpoint endpoint);
/// All tables as one JSON array, for docs and tests.
std::string parameter_table_json();

}  // namespace slipstream::api
