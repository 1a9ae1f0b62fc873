// Prompt look-up: proposes what followed the last tokens the last time they occurred in the slot's own history. Worker
// thread only; keeps no state, so nothing has to be rolled back.
#pragma once

#include <cstdint>

#include "engine/spec/drafter.h"

namespace slipstream {

/// Tokens that prompt look-up searches by default; the device's twin searches as many.
inline constexpr int32_t kNgramWindow = 4096;

class NgramDrafter final : public Drafter {
 public:
  /// Looks for the longest suffix of max_n down to min_n tokens (1 <= min_n <= max_n); of equal matches the latest wins.
  /// Only the last `window` tokens are searched, which bounds the work per step.
  NgramDrafter(int32_t min_n, int32_t max_n, int32_t window = kNgramWindow);

  std::string name() const override { return "ngram"; }
  void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) override;

 private:
  void propose_one(const DraftRequest& request, std::vector<int32_t>* draft) const;

  const size_t min_n_;
  const size_t max_n_;
  const size_t window_;
};

}  // namespace slipstream
