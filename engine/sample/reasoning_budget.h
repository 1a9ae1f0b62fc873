// At most so many tokens of reasoning (thinking_token_budget): when they are spent and the reasoning has not ended, the sequence
// that ends it is forced, token by token. Outside of reasoning nothing is refused.
#pragma once

#include <memory>
#include <vector>

#include "engine/sample/token_constraint.h"
#include "engine/sample/token_sequence.h"

namespace slipstream {

class ReasoningBudget final : public ConstraintSpec {
 public:
  struct Rules {
    int32_t tokens = 0;              // >= 0; of the whole choice, should it reason more than once
    std::vector<int32_t> start, end; // what opens and closes reasoning; start may be empty: it never opens by itself
    bool inside = false;             // the first generated token is reasoning already
  };
  /// `rules.end` is not empty.
  explicit ReasoningBudget(Rules rules);
  std::unique_ptr<TokenConstraint> start() const override;

  struct Marks {
    int32_t tokens;
    TokenSequence start, end;
    bool inside;
  };

 private:
  std::shared_ptr<const Marks> marks_;
};

}  // namespace slipstream
