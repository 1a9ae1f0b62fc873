// Binding of call arguments. Must never know what is called.
#include "engine/text/template_call.h"

namespace slipstream::jinja {

Bound::Bound(const std::string& function, const Arguments& arguments, std::initializer_list<const char*> parameters,
             size_t required)
    : function_(function), values_(parameters.size(), nullptr) {
  if (arguments.positional.size() > parameters.size())
    fail_type(function + "() takes at most " + std::to_string(parameters.size()) + " arguments, " +
              std::to_string(arguments.positional.size()) + " were given");
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t index = 0;
    for (const char* parameter : parameters) {
      if (name == parameter) break;
      ++index;
    }
    if (index == parameters.size()) fail_type(function + "() has no parameter '" + name + "'");
    if (values_[index] != nullptr) fail_type(function + "() got two values for '" + name + "'");
    values_[index] = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (values_[i] == nullptr)
      fail_type(function + "() misses its argument '" + std::string(parameters.begin()[i]) + "'");
}

int64_t Bound::integer(size_t index, int64_t fallback) const {
  const Value* value = get(index);
  if (value == nullptr || value->is(Kind::kNone)) return fallback;
  if (value->is(Kind::kUndefined)) fail_undefined(*value);
  if (!value->is_integral()) fail_type(function_ + "() needs an integer, not " + type_name(*value));
  const Integer number = value->as_integer();
  if (number > INT64_MAX || number < INT64_MIN) fail("an argument of " + function_ + "() is out of range");
  return static_cast<int64_t>(number);
}

const Text& Bound::text(size_t index) const {
  const Value* value = get(index);
  if (value == nullptr || !value->is(Kind::kString))
    fail_type(function_ + "() needs a string, not " + (value == nullptr ? "nothing" : type_name(*value)));
  return value->text();
}

}  // namespace slipstream::jinja
