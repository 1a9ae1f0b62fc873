// Follows one JSON value through a stream of text, to know where it ends before it has come whole. Builds nothing and knows no
// format of calls.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slipstream::output {

/// Lenient: what is no JSON is followed as well as brackets and quotes allow. Nesting is counted, not remembered.
class JsonScanner {
 public:
  /// Consumes up to the end of the value, appending it to `out` with raw line ends inside strings escaped, which models forget.
  /// Returns the bytes consumed; fewer than all when the value has ended, or was broken off by what no value holds.
  size_t feed(std::string_view text, std::string* out);
  /// The value has ended. A number or word ends only with what follows it.
  bool complete() const { return complete_; }
  /// A tag or a special token stands where the value should go on: it will never be whole.
  bool broken() const { return broken_; }
  /// Its first byte; 0 before that.
  char first() const { return first_; }
  bool inside_string() const { return in_string_; }

 private:
  bool step(char c, std::string* out);

  size_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, complete_ = false, broken_ = false;
  char first_ = 0;
};

}  // namespace slipstream::output
