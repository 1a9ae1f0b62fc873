// Several constraints at once: a token may come where all of them let it, and the choice is over when one of them is.
#pragma once

#include <memory>
#include <vector>

#include "engine/sample/token_constraint.h"

namespace slipstream {

class AllOf final : public ConstraintSpec {
 public:
  explicit AllOf(std::vector<std::shared_ptr<const ConstraintSpec>> parts);
  std::unique_ptr<TokenConstraint> start() const override;

 private:
  const std::vector<std::shared_ptr<const ConstraintSpec>> parts_;
};

/// Those that are not null, as one: null for none, itself for one alone.
std::shared_ptr<const ConstraintSpec> all_of(std::vector<std::shared_ptr<const ConstraintSpec>> parts);

}  // namespace slipstream
