// The text changes of a tokenizer before it is split: normal forms, a prefix, replacements, in order. Knows no tokens.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "engine/text/pattern.h"
#include "engine/text/unicode.h"

namespace slipstream {

class Normalizer {
 public:
  struct NormalForm { unicode::Form form; };
  struct Prepend { std::string text; };                  // to text that is not empty
  struct Replace { std::string from, to; };              // a literal string
  struct ReplacePattern { Pattern from; std::string to; };
  struct Lowercase {};
  struct Strip { bool left, right; };                    // white space
  using Step = std::variant<NormalForm, Prepend, Replace, ReplacePattern, Lowercase, Strip>;

  template <typename StepType>
  void add(StepType step) {
    steps_.emplace_back(std::in_place_type<StepType>, std::move(step));
  }
  bool empty() const { return steps_.empty(); }
  /// The result may only depend on the whole text: a prefix goes in front of everything.
  bool prepends() const;

  /// with_prefix: Prepend steps are applied.
  Result<std::string> apply(std::string_view text, bool with_prefix = true) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace slipstream
