// Only these tokens, at every place (allowed_token_ids). An end token must be among them for the choice to end by itself.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/sample/token_constraint.h"

namespace slipstream {

class AllowedTokens final : public ConstraintSpec {
 public:
  /// Ids from 0, in any order.
  explicit AllowedTokens(std::span<const int32_t> ids);
  std::unique_ptr<TokenConstraint> start() const override;

 private:
  std::shared_ptr<const std::vector<uint32_t>> mask_;  // to the word of the largest id
};

}  // namespace slipstream
