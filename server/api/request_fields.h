// How every endpoint reads a body's members: each one meets the endpoint's parameter table (unknown, refused, type, range)
// before any of them is used. Knows no field by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/api/parameter_table.h"
#include "server/api/request_schema.h"

namespace slipstream::api {

/// The number as an exact 64-bit integer; empty when it is none. 10.0 counts as 10, as JSON has one number type.
std::optional<int64_t> exact_integer(const Json& value);

/// Every member of `body` against the table of `endpoint`; unknown names are reported to the context.
Status check_members(const Json& body, Endpoint endpoint, const SchemaContext& context);

/// Values that check_members has passed: a field that the endpoint's table does not hold was not checked, and counts as
/// absent, as null does.
class Fields {
 public:
  Fields(const Json& body, Endpoint endpoint) : body_(body), endpoint_(endpoint) {}
  const Json* find(std::string_view name) const;
  void get(std::string_view name, bool* out) const;
  void get(std::string_view name, float* out) const;
  void get(std::string_view name, int32_t* out) const;
  void get(std::string_view name, std::string* out) const;

 private:
  const Json& body_;
  const Endpoint endpoint_;
};

}  // namespace slipstream::api
