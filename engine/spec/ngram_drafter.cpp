#include "engine/spec/ngram_drafter.h"

#include <algorithm>

#include "kernels/check.h"

namespace slipstream {

NgramDrafter::NgramDrafter(int32_t min_n, int32_t max_n, int32_t window)
    : min_n_(static_cast<size_t>(min_n)), max_n_(static_cast<size_t>(max_n)), window_(static_cast<size_t>(window)) {
  CHECK(1 <= min_n && min_n <= max_n && max_n < window, "n-gram lengths");
}

void NgramDrafter::propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) {
  for (size_t i = 0; i < requests.size(); ++i) propose_one(requests[i], &(*drafts)[i]);
}

void NgramDrafter::propose_one(const DraftRequest& request, std::vector<int32_t>* draft) const {
  std::span<const int32_t> text = request.history;
  if (text.size() > window_) text = text.last(window_);
  if (text.size() < min_n_ + 1) return;
  // One backward pass: at each earlier end, how many tokens agree with the suffix.
  size_t best_length = 0, best_end = 0;
  for (size_t end = text.size() - 1; end >= min_n_; --end) {
    size_t agree = 0;
    while (agree < max_n_ && agree < end && text[end - 1 - agree] == text[text.size() - 1 - agree]) ++agree;
    if (agree >= min_n_ && agree > best_length) {
      best_length = agree;
      best_end = end;
      if (agree == max_n_) break;
    }
  }
  if (best_length == 0) return;
  const size_t count = std::min(static_cast<size_t>(request.max_tokens), text.size() - best_end);
  draft->assign(text.begin() + static_cast<int64_t>(best_end), text.begin() + static_cast<int64_t>(best_end + count));
}

}  // namespace slipstream
