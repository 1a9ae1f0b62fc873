// Typed reading of GGUF metadata keys, which come from outside: presence, type and range are checked, and every default
// taken is listed. Knows no key. Internal to engine/model.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

class MetaFields {
 public:
  MetaFields(const Checkpoint& checkpoint, std::string prefix, std::vector<std::string>* defaults)
      : meta_(checkpoint.metadata()), prefix_(std::move(prefix)), defaults_(defaults) {}

  /// The value of prefix + key, or null.
  const MetaValue* find(std::string_view key) const {
    const auto it = meta_.find(prefix_ + std::string(key));
    return it == meta_.end() ? nullptr : &it->second;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  Result<int64_t> integer(std::string_view key, int64_t low, int64_t high) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is missing");
    int64_t number = 0;
    if (const auto* i = std::get_if<int64_t>(value)) {
      number = *i;
    } else if (const auto* u = std::get_if<uint64_t>(value)) {
      number = *u > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(*u);
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(value)) {
      // Some keys may be given per layer; only models with one value for all are served.
      if (list->empty() || std::any_of(list->begin(), list->end(), [&](int64_t v) { return v != list->front(); }))
        return unsupported("GGUF: key '" + prefix_ + std::string(key) + "' differs from layer to layer, which is not served");
      number = list->front();
    } else {
      return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is not an integer");
    }
    if (number < low || number > high)
      return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is " + std::to_string(number) + ", expected " +
                     std::to_string(low) + " to " + std::to_string(high));
    return number;
  }
  Result<int64_t> integer_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
    if (has(key)) return integer(key, low, high);
    took_default(key, std::to_string(fallback));
    return fallback;
  }
  Result<double> number(std::string_view key, double low, double high) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is missing");
    double number = NAN;
    if (const auto* d = std::get_if<double>(value)) number = *d;
    if (const auto* i = std::get_if<int64_t>(value)) number = static_cast<double>(*i);
    if (const auto* u = std::get_if<uint64_t>(value)) number = static_cast<double>(*u);
    if (!std::isfinite(number) || number < low || number > high)
      return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is " + std::to_string(number) +
                     ", expected a number from " + std::to_string(low) + " to " + std::to_string(high));
    return number;
  }
  Result<double> number_or(std::string_view key, double fallback, double low, double high) const {
    if (has(key)) return number(key, low, high);
    took_default(key, std::to_string(fallback));
    return fallback;
  }
  Result<bool> boolean(std::string_view key) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is missing");
    if (const auto* b = std::get_if<bool>(value)) return *b;
    return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is not a boolean");
  }
  /// A list of integers, or of booleans as 0 and 1; empty when absent.
  Result<std::vector<int64_t>> integers(std::string_view key) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return std::vector<int64_t>();
    if (const auto* list = std::get_if<std::vector<int64_t>>(value)) return *list;
    return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is not a list of integers");
  }
  Result<std::string> text(std::string_view key) const {
    const MetaValue* value = find(key);
    if (value == nullptr) return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is missing");
    if (const auto* s = std::get_if<std::string>(value)) return *s;
    return corrupt("GGUF: key '" + prefix_ + std::string(key) + "' is not a string");
  }

 private:
  void took_default(std::string_view key, const std::string& value) const {
    defaults_->push_back(prefix_ + std::string(key) + " = " + value);
  }
  const std::map<std::string, MetaValue, std::less<>>& meta_;
  std::string prefix_;
  std::vector<std::string>* defaults_;
};

}  // namespace slipstream
