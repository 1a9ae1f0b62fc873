// A constraint that leaves no choice: the given tokens and then nothing. Makes the engine score a known text with the
// log-probabilities of its own tokens; knows nothing of what the text is.
#pragma once

#include <vector>

#include "engine/sample/token_constraint.h"

namespace slipstream {

class ForcedTokens : public ConstraintSpec {
 public:
  explicit ForcedTokens(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  /// Borrows this spec's tokens: the request keeps the spec alive.
  std::unique_ptr<TokenConstraint> start() const override;

 private:
  const std::vector<int32_t> tokens_;
};

}  // namespace slipstream
