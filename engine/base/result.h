// Errors as values. Owns Result<T>, Status and Error; must never know HTTP, JSON or a device.
//
// Rule: what input or disk can cause is a Result; our own mistakes are a CHECK (engine/base/check.h).
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "kernels/check.h"

namespace slipstream {

/// What kind of failure it was. The HTTP edge maps each to one status code (server/api/response_writer).
enum class ErrorCode {
  kInvalidArgument,    // 400: a value that the caller sent
  kUnsupported,        // 400 / exit 2: known, but not served; the message names the alternative
  kContextLength,      // 400: prompt + output over the context
  kNotFound,           // 404 / exit 2
  kResourceExhausted,  // 429: a queue is full
  kUnavailable,        // 503: loading, draining, dead
  kCorrupt,            // exit 2: a file that breaks its own format
  kIo,                 // exit 2: a file that cannot be read
  kInternal,           // 500
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one line: the thing, the value, the bound, the next step; no paths for HTTP errors
  std::string param;    // dotted path of the request field or config key; may be empty
};

inline Error invalid_argument(std::string message, std::string param = {}) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(param)};
}
inline Error unsupported(std::string message, std::string param = {}) {
  return {ErrorCode::kUnsupported, std::move(message), std::move(param)};
}
inline Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message), {}}; }
inline Error io_error(std::string message) { return {ErrorCode::kIo, std::move(message), {}}; }
inline Error not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message), {}}; }
inline Error internal_error(std::string message) { return {ErrorCode::kInternal, std::move(message), {}}; }

/// A value or an Error. Access to the wrong side is a CHECK failure.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok(), "value() of an error: " + error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok(), "value() of an error: " + error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok(), "value() of an error: " + error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    CHECK(!ok(), "error() of a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    CHECK(!ok(), "error() of a value");
    return std::get<1>(std::move(state_));
  }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).message; }
  std::variant<T, Error> state_;
};

struct Ok {};
/// Success without a value. `return Ok{};`
using Status = Result<Ok>;

}  // namespace slipstream

#define SLIP_CONCAT_INNER(a, b) a##b
#define SLIP_CONCAT(a, b) SLIP_CONCAT_INNER(a, b)
/// SLIP_TRY(auto file, open(path)); returns the error of `expr` from the enclosing function, or declares the value.
#define SLIP_TRY(declaration, expr)                                     \
  auto SLIP_CONCAT(slip_result_, __LINE__) = (expr);                    \
  if (!SLIP_CONCAT(slip_result_, __LINE__).ok())                        \
    return std::move(SLIP_CONCAT(slip_result_, __LINE__)).error();      \
  declaration = std::move(SLIP_CONCAT(slip_result_, __LINE__)).value()
/// SLIP_RETURN_IF_ERROR(check(x)); for a Status.
#define SLIP_RETURN_IF_ERROR(expr)                                      \
  do {                                                                  \
    auto slip_status = (expr);                                          \
    if (!slip_status.ok()) return std::move(slip_status).error();       \
  } while (0)
