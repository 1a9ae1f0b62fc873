// Arguments of a call and their binding to parameter names, as Python binds them. Must never know what is called.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/template_value.h"

namespace slipstream::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find(std::string_view name) const {
    for (const auto& [present, value] : named)
      if (present == name) return &value;
    return nullptr;
  }
};

/// Arguments under their parameters' names; a TypeError names the function for whatever does not fit.
class Bound {
 public:
  Bound(const std::string& function, const Arguments& arguments, std::initializer_list<const char*> parameters,
        size_t required = 0);
  /// Null when the caller left it out.
  const Value* get(size_t index) const { return values_[index]; }
  bool has(size_t index) const { return values_[index] != nullptr; }
  bool truth(size_t index, bool fallback) const { return has(index) ? is_truthy(*get(index)) : fallback; }
  /// A whole number; None counts as left out.
  int64_t integer(size_t index, int64_t fallback) const;
  const Text& text(size_t index) const;  // must be a string

 private:
  std::string function_;
  std::vector<const Value*> values_;
};

}  // namespace slipstream::jinja
