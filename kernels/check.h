// CHECK: stops the process on our own mistakes. Never reachable from a request or a file.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace slipstream {

/// Prints one line to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& text);

/// Narrows with a check that the value survived. For values that were already validated.
template <typename To, typename From>
To checked_cast(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const To narrowed = static_cast<To>(value);
  if (static_cast<From>(narrowed) != value || ((narrowed < To{}) != (value < From{})))
    check_failed(__FILE__, __LINE__, "checked_cast", "a value does not fit the narrower type");
  return narrowed;
}

/// a * b and a + b for sizes that come from outside; false on overflow.
inline bool checked_mul(uint64_t a, uint64_t b, uint64_t* out) { return !__builtin_mul_overflow(a, b, out); }
inline bool checked_add(uint64_t a, uint64_t b, uint64_t* out) { return !__builtin_add_overflow(a, b, out); }

}  // namespace slipstream

#define CHECK(condition, text)                                                          \
  do {                                                                                  \
    if (__builtin_expect(!(condition), 0))                                              \
      ::slipstream::check_failed(__FILE__, __LINE__, #condition, std::string(text));    \
  } while (0)
