// How a row of a parameter table is written down. For the tables' own files only.
#pragma once

#include "config/limits.h"
#include "server/api/parameter_table.h"

namespace slipstream::api::rows {

constexpr Parameter number(const limits::IntBound& bound, Endpoint endpoints, std::string_view note,
                           std::string_view name = "") {
  return {name.empty() ? std::string_view(bound.field) : name, endpoints, Treatment::kUsed, Type::kInt,
          static_cast<double>(bound.min), static_cast<double>(bound.max), false, note, "",
          name.empty() ? std::string_view() : std::string_view(bound.field)};
}
constexpr Parameter number(const limits::FloatBound& bound, Endpoint endpoints, std::string_view note, bool min_excluded = false,
                           std::string_view name = "") {
  return {name.empty() ? std::string_view(bound.field) : name, endpoints, Treatment::kUsed, Type::kFloat, bound.min, bound.max,
          min_excluded, note, "", name.empty() ? std::string_view() : std::string_view(bound.field)};
}
constexpr Parameter used(std::string_view name, Endpoint endpoints, Type type, std::string_view note) {
  return {name, endpoints, Treatment::kUsed, type, 0, 0, false, note};
}
constexpr Parameter accepted(std::string_view name, Endpoint endpoints, Type type, std::string_view note) {
  return {name, endpoints, Treatment::kAccepted, type, 0, 0, false, note};
}
constexpr Parameter refused(std::string_view name, Endpoint endpoints, std::string_view note,
                            std::string_view neutral = "") {
  return {name, endpoints, Treatment::kRefused, Type::kAny, 0, 0, false, note, neutral};
}

}  // namespace slipstream::api::rows
