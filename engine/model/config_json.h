// Typed reading of one JSON object whose keys come from outside: presence, type and range are checked, and every
// default taken is listed. Knows no key. Included by .cpp files only, for the JSON library's weight.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/result.h"

namespace slipstream {

class JsonFields {
 public:
  /// `file` names the source in errors; defaults taken are appended to `defaults` unless it is null.
  JsonFields(std::string file, const nlohmann::json& object, std::vector<std::string>* defaults)
      : file_(std::move(file)), object_(object), defaults_(defaults) {}

  bool has(const char* key) const {
    const auto it = object_.find(key);
    return it != object_.end() && !it->is_null();
  }
  /// True for an explicit null too.
  bool contains(const char* key) const { return object_.contains(key); }
  const nlohmann::json& at(const char* key) const { return object_.at(key); }

  Result<int64_t> integer(const char* key, int64_t low, int64_t high) const;
  Result<int64_t> integer_or(const char* key, int64_t fallback, int64_t low, int64_t high) const;
  /// Finite, low <= value <= high.
  Result<double> number(const char* key, double low, double high) const;
  Result<double> number_or(const char* key, double fallback, double low, double high) const;
  Result<bool> boolean_or(const char* key, bool fallback) const;
  Result<std::string> text(const char* key) const;
  /// An id, a list of ids, or nothing.
  Result<std::vector<int32_t>> ids(const char* key) const;

  /// The value as it stands, escaped and shortened for an error line. The key is there.
  std::string shown(const char* key) const;
  Error bad(const char* key, const std::string& expected) const;
  Error missing(const char* key) const;

 private:
  void took_default(const char* key, const std::string& value) const;
  std::string file_;
  const nlohmann::json& object_;
  std::vector<std::string>* defaults_;
};

/// Parses a whole side file; the root must be an object.
Result<nlohmann::json> parse_json_object(const std::string& file, const std::string& text);

}  // namespace slipstream
