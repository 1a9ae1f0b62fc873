// Proposes what it was told will come, wrong at chosen positions. For tests and for measuring what acceptance could pay.
#pragma once

#include <functional>

#include "engine/spec/drafter.h"

namespace slipstream {

class OracleDrafter final : public Drafter {
 public:
  /// The next token after a history, or -1 when it is not known.
  using Future = std::function<int32_t(std::span<const int32_t> history)>;
  /// Whether the proposal for this position of the whole sequence shall be wrong.
  using Wrong = std::function<bool(int32_t position)>;

  OracleDrafter(Future future, Wrong wrong, int32_t vocab)
      : future_(std::move(future)), wrong_(std::move(wrong)), vocab_(vocab) {}

  std::string name() const override { return "oracle"; }
  void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) override;

 private:
  const Future future_;
  const Wrong wrong_;
  const int32_t vocab_;
};

}  // namespace slipstream
