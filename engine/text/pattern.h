// One compiled regular expression of a pre-tokenizer: PCRE2 with JIT, bounded by match limits. Translates the few
// constructs whose meaning differs from Oniguruma, in which tokenizer files are written. Knows no tokens.
//
// Thread-safe after compile().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace slipstream {

class Pattern {
 public:
  struct Range {
    size_t begin;
    size_t end;
  };

  /// Errors: kUnsupported with the construct (class intersections, nested classes) or kCorrupt with PCRE2's words and
  /// the offset.
  static Result<Pattern> compile(std::string_view expression);

  /// Match memory for a series of find_all calls of one thread.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Pattern;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// All non-empty matches in order, without overlap; replaces *out. `text` must be valid UTF-8. kInvalidArgument
  /// when a limit is hit.
  Status find_all(std::string_view text, Scratch& scratch, std::vector<Range>* out) const;

 private:
  struct Code;
  explicit Pattern(std::shared_ptr<const Code> code);
  std::shared_ptr<const Code> code_;
};

/// `expression` with Oniguruma's meaning spelled for PCRE2: \s is White_Space (PCRE2 adds U+180E), \w has marks,
/// \uXXXX, scripts instead of script extensions. Public for its test.
Result<std::string> translate_expression(std::string_view expression);

/// A string quoted so that it matches itself.
std::string quote_expression(std::string_view literal);

}  // namespace slipstream
