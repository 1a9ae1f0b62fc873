// See request_fields.h.
#include "server/api/request_fields.h"

#include <charconv>
#include <cmath>

namespace slipstream::api {
namespace {

std::string bound_text(double value) {
  if (std::fabs(value) >= 9007199254740992.0)
    return value < 0 ? std::to_string(INT64_MIN) : std::to_string(INT64_MAX);
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

std::string range_text(const Parameter& p) {
  return std::string(p.name) + " must be " + (p.type == Type::kInt ? "an integer" : "a number") +
         (p.min_excluded ? " above " : " from ") + bound_text(p.min) + (p.min_excluded ? " up to " : " to ") +
         bound_text(p.max);
}

bool is_neutral(const Parameter& p, const Json& value) {
  std::string_view rest = p.neutral;
  if (rest.empty()) return false;
  while (true) {
    const size_t bar = rest.find('|');
    if (value == Json::parse(rest.substr(0, bar))) return true;
    if (bar == std::string_view::npos) return false;
    rest.remove_prefix(bar + 1);
  }
}

Status check_value(const Parameter& p, const Json& value) {
  const std::string name(p.name);
  if (p.treatment == Treatment::kRefused) {
    if (is_neutral(p, value)) return Ok{};
    return unsupported(name + " is not supported: " + std::string(p.note), name);
  }
  switch (p.type) {
    case Type::kBool:
      if (!value.is_boolean()) return invalid_argument(name + " must be true or false", name);
      break;
    case Type::kString:
      if (!value.is_string()) return invalid_argument(name + " must be a string", name);
      break;
    case Type::kList:
      if (!value.is_array()) return invalid_argument(name + " must be a list", name);
      break;
    case Type::kObject:
      if (!value.is_object()) return invalid_argument(name + " must be an object", name);
      break;
    case Type::kStringOrList:
      if (!value.is_string() && !value.is_array())
        return invalid_argument(name + " must be a string or a list", name);
      break;
    case Type::kInt: {
      const auto v = exact_integer(value);
      if (!v) {
        return invalid_argument(p.min == 0 && p.max == 0 ? name + " must be an integer" : range_text(p), name);
      }
      // a bound beyond 2^53 is the type's own, which exact_integer has checked
      const bool bounded = (p.min != 0 || p.max != 0) && p.max < 9007199254740992.0;
      if (bounded && (*v < static_cast<int64_t>(p.min) || *v > static_cast<int64_t>(p.max)))
        return invalid_argument(range_text(p), name);
      break;
    }
    case Type::kFloat: {
      if (!value.is_number()) return invalid_argument(range_text(p), name);
      const double v = value.get<double>();
      if (!(v >= p.min && v <= p.max) || (p.min_excluded && v <= p.min))
        return invalid_argument(range_text(p), name);
      break;
    }
    case Type::kAny: break;
  }
  return Ok{};
}

}  // namespace

std::optional<int64_t> exact_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto v = value.get<uint64_t>();
    if (v > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(v);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double v = value.get<double>();
    if (std::nearbyint(v) == v && std::fabs(v) <= 9007199254740992.0) return static_cast<int64_t>(v);
  }
  return std::nullopt;
}

Status check_members(const Json& body, Endpoint endpoint, const SchemaContext& context) {
  for (const auto& [name, value] : body.items()) {
    const Parameter* p = find_parameter(name, endpoint);
    if (!p) {
      if (context.unknown_field) context.unknown_field(name);
      continue;
    }
    if (value.is_null()) continue;
    SLIP_RETURN_IF_ERROR(check_value(*p, value));
  }
  return Ok{};
}

const Json* Fields::find(std::string_view name) const {
  if (find_parameter(name, endpoint_) == nullptr) return nullptr;
  const auto it = body_.find(std::string(name));
  return it == body_.end() || it->is_null() ? nullptr : &*it;
}

void Fields::get(std::string_view name, bool* out) const {
  if (const Json* v = find(name)) *out = v->get<bool>();
}
void Fields::get(std::string_view name, float* out) const {
  if (const Json* v = find(name)) *out = static_cast<float>(v->get<double>());
}
void Fields::get(std::string_view name, int32_t* out) const {
  if (const Json* v = find(name)) *out = checked_cast<int32_t>(*exact_integer(*v));
}
void Fields::get(std::string_view name, std::string* out) const {
  if (const Json* v = find(name)) *out = v->get<std::string>();
}

}  // namespace slipstream::api
