// The functions that a request offers, as the output parsers need them: their names, and which JSON types each parameter's schema
// allows. Knows no template and no endpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace slipstream::output {

/// JSON types, as bits.
enum ValueKind : uint8_t {
  kString = 1,
  kInteger = 2,
  kNumber = 4,
  kBoolean = 8,
  kNull = 16,
  kObject = 32,
  kArray = 64,
  kAnyKind = 127,
};

/// Const after construction; shared between the choices of a request.
class ToolSet {
 public:
  ToolSet() = default;
  /// `tools`: [{"type": "function", "function": {"name", "parameters"}}], already validated.
  explicit ToolSet(const nlohmann::ordered_json& tools);

  bool has(std::string_view function) const { return functions_.find(function) != functions_.end(); }
  bool declares(std::string_view function, std::string_view parameter) const;
  /// The types that the parameter's schema allows; kAnyKind when it says nothing.
  uint8_t kinds(std::string_view function, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, uint8_t, std::less<>>;
  std::map<std::string, Parameters, std::less<>> functions_;
};

/// The types that `schema` allows, from type, enum, const, anyOf, oneOf, allOf and local references in `root`.
uint8_t schema_kinds(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root);

}  // namespace slipstream::output
