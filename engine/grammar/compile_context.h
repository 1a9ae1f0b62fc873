// The bounds of one compilation and its first error. The compiler's parts return something harmless once it has failed and
// look at it where they loop, so that no step needs an error path of its own.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "config/limits.h"
#include "engine/base/result.h"

namespace slipstream::grammar {

/// One compilation, one thread.
class CompileContext {
 public:
  explicit CompileContext(std::chrono::milliseconds budget)
      : deadline_(std::chrono::steady_clock::now() + budget), budget_(budget) {}

  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  /// The first error stays.
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void fail(std::string message) { fail(invalid_argument(std::move(message), param)); }

  /// Counts work; looks at the clock now and then. False once the compilation has failed.
  bool work(int64_t steps) {
    unseen_ += steps;
    if (unseen_ >= 2048) look_at_clock();
    return !failed();
  }
  /// False, with an error, when an automaton of so many states is too large.
  bool states(size_t count) {
    if (count > static_cast<size_t>(limits::kGrammarStates))
      fail("the grammar needs more than " + std::to_string(limits::kGrammarStates) +
           " automaton states; use smaller repetition counts or lengths, or fewer alternatives");
    return !failed();
  }

  std::string param;  // of the part that is being compiled; fail() places its error there

 private:
  void look_at_clock() {
    unseen_ = 0;
    if (std::chrono::steady_clock::now() > deadline_)
      fail("compiling the grammar took more than " + std::to_string(budget_.count()) + " ms; simplify it");
  }

  const std::chrono::steady_clock::time_point deadline_;
  const std::chrono::milliseconds budget_;
  int64_t unseen_ = 0;
  std::optional<Error> error_;
};

}  // namespace slipstream::grammar
