#include "engine/spec/random_drafter.h"

namespace slipstream {
namespace {

uint64_t next(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

void RandomDrafter::propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    uint64_t state = seed_ ^ (request.history.size() * 0x2545f4914f6cdd1dull) ^
                     static_cast<uint64_t>(static_cast<uint32_t>(request.history.back()));
    const uint64_t count = next(&state) % (static_cast<uint64_t>(request.max_tokens) + 1);
    for (uint64_t k = 0; k < count; ++k)
      (*drafts)[i].push_back(static_cast<int32_t>(next(&state) % static_cast<uint64_t>(vocab_)));
  }
}

}  // namespace slipstream
