// Sequences of tokens that may not appear in what is generated (bad_words): the last token of each is refused where the others came
// right before it. Which tokenisations a word has is the caller's matter; the prompt does not count.
#pragma once

#include <memory>
#include <vector>

#include "engine/sample/token_constraint.h"

namespace slipstream {

class BadWords final : public ConstraintSpec {
 public:
  /// Ids from 0. Empty sequences forbid nothing.
  explicit BadWords(const std::vector<std::vector<int32_t>>& sequences);
  std::unique_ptr<TokenConstraint> start() const override;

  struct Index;  // of the sequences, by the token before the last

 private:
  std::shared_ptr<const Index> index_;
};

}  // namespace slipstream
