// Another constraint that begins with the first token behind the reasoning: what it says about a response is not about the thoughts
// before it. While the model reasons, nothing is refused.
#pragma once

#include <memory>
#include <vector>

#include "engine/sample/token_constraint.h"
#include "engine/sample/token_sequence.h"

namespace slipstream {

class AfterReasoning final : public ConstraintSpec {
 public:
  enum class Begin : uint8_t {
    kInside,   // the first generated token is reasoning
    kOutside,  // it is the response
    kMayOpen,  // it is the response, or the token that opens reasoning
  };
  struct Rules {
    Begin begin = Begin::kInside;
    int32_t opening = -1;      // kMayOpen: that token
    std::vector<int32_t> end;  // what closes reasoning; not empty unless it begins outside
  };
  AfterReasoning(std::shared_ptr<const ConstraintSpec> inner, Rules rules);
  std::unique_ptr<TokenConstraint> start() const override;

  struct Marks {
    Begin begin;
    int32_t opening;
    TokenSequence end;
  };

 private:
  const std::shared_ptr<const ConstraintSpec> inner_;
  std::shared_ptr<const Marks> marks_;
};

}  // namespace slipstream
