#include "engine/spec/oracle_drafter.h"

namespace slipstream {

void OracleDrafter::propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) {
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<int32_t> text(requests[i].history.begin(), requests[i].history.end());
    for (int32_t k = 0; k < requests[i].max_tokens; ++k) {
      int32_t token = future_(text);
      if (token < 0) break;
      if (wrong_ && wrong_(static_cast<int32_t>(text.size()))) token = (token + 1) % vocab_;
      text.push_back(token);
      (*drafts)[i].push_back(token);
    }
  }
}

}  // namespace slipstream
