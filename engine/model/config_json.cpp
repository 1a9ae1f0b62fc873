// JsonFields: see config_json.h.
#include "engine/model/config_json.h"

#include <cstdio>

namespace slipstream {
namespace {

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

}  // namespace

std::string JsonFields::shown(const char* key) const {
  std::string text = object_.at(key).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

Error JsonFields::bad(const char* key, const std::string& expected) const {
  return corrupt(file_ + ": '" + key + "' is " + shown(key) + ", expected " + expected);
}

Error JsonFields::missing(const char* key) const {
  return corrupt(file_ + ": '" + key + "' is missing; add it from the model's original " + file_);
}

void JsonFields::took_default(const char* key, const std::string& value) const {
  if (defaults_ != nullptr) defaults_->push_back(std::string(key) + " = " + value);
}

Result<int64_t> JsonFields::integer(const char* key, int64_t low, int64_t high) const {
  if (!has(key)) return missing(key);
  const auto& value = object_.at(key);
  const std::string expected = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  if (!value.is_number_integer()) return bad(key, expected);
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return bad(key, expected);
  const int64_t number = value.get<int64_t>();
  if (number < low || number > high) return bad(key, expected);
  return number;
}

Result<int64_t> JsonFields::integer_or(const char* key, int64_t fallback, int64_t low, int64_t high) const {
  if (has(key)) return integer(key, low, high);
  took_default(key, std::to_string(fallback));
  return fallback;
}

Result<double> JsonFields::number(const char* key, double low, double high) const {
  if (!has(key)) return missing(key);
  const auto& value = object_.at(key);
  const std::string expected = "a number from " + number_text(low) + " to " + number_text(high);
  if (!value.is_number()) return bad(key, expected);
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < low || number > high) return bad(key, expected);
  return number;
}

Result<double> JsonFields::number_or(const char* key, double fallback, double low, double high) const {
  if (has(key)) return number(key, low, high);
  took_default(key, number_text(fallback));
  return fallback;
}

Result<bool> JsonFields::boolean_or(const char* key, bool fallback) const {
  if (!has(key)) {
    took_default(key, fallback ? "true" : "false");
    return fallback;
  }
  if (!object_.at(key).is_boolean()) return bad(key, "true or false");
  return object_.at(key).get<bool>();
}

Result<std::string> JsonFields::text(const char* key) const {
  if (!has(key)) return missing(key);
  if (!object_.at(key).is_string()) return bad(key, "a string");
  return object_.at(key).get<std::string>();
}

Result<std::vector<int32_t>> JsonFields::ids(const char* key) const {
  std::vector<int32_t> out;
  if (!has(key)) return out;
  const auto& value = object_.at(key);
  const std::string expected = "a token id, or a list of at most 64 token ids";
  const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
  if (list.size() > 64) return bad(key, expected);
  for (const auto& id : list) {
    if (!id.is_number_integer()) return bad(key, expected);
    const int64_t number = id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX ? -1 : id.get<int64_t>();
    if (number < 0 || number > INT32_MAX) return bad(key, expected);
    out.push_back(static_cast<int32_t>(number));
  }
  return out;
}

Result<nlohmann::json> parse_json_object(const std::string& file, const std::string& text) {
  nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (root.is_discarded()) return corrupt(file + ": not valid JSON; download the file again");
  if (!root.is_object()) return corrupt(file + ": the root is not an object; download the file again");
  return root;
}

}  // namespace slipstream
