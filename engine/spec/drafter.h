// Proposes tokens; never touches committed state. Deterministic, so that the seed contract holds (design: a draft is
// accepted iff it equals the token that the sampler draws).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace slipstream {

struct DraftRequest {
  int32_t slot = 0;
  std::span<const int32_t> history;  // prompt and committed tokens, the last one not yet in the cache
  int32_t max_tokens = 0;            // at most this many proposals
};

/// One per rank, worker thread only.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::string name() const = 0;
  /// drafts[i] holds at most requests[i].max_tokens ids.
  virtual void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) = 0;
};

}  // namespace slipstream
