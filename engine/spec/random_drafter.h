// Proposes noise of random length: nearly always wrong, so it exercises rejection. For tests.
#pragma once

#include "engine/spec/drafter.h"

namespace slipstream {

class RandomDrafter final : public Drafter {
 public:
  RandomDrafter(uint64_t seed, int32_t vocab) : seed_(seed), vocab_(vocab) {}

  std::string name() const override { return "random"; }
  /// A function of the seed and the history alone, so that every rank proposes the same.
  void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) override;

 private:
  const uint64_t seed_;
  const int32_t vocab_;
};

}  // namespace slipstream
