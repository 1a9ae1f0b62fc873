#include "engine/run/graph_keys.h"

#include <set>

namespace slipstream {

std::vector<StepKey> usual_graphs(const GraphBounds& bounds) {
  std::vector<StepKey> keys;
  std::set<StepKey> known, forwards, commits;
  const auto add = [&](int32_t span_rows, int32_t span_class, bool drafts) {
    for (int32_t context = padded_context(1, bounds.context);; context = padded_context(context + 1, bounds.context)) {
      for (int32_t running = 1; running <= bounds.slots; ++running) {
        const int32_t rows = std::min(padded_rows(running * span_rows), bounds.max_rows);
        for (const CommitVariant commit : {CommitVariant::kGreedy, CommitVariant::kSampled}) {
          const StepKey key{rows, padded_rows(running), span_class, context, commit, drafts};
          if (!known.insert(key).second) continue;
          forwards.insert(key.of_forward());
          commits.insert(key.of_commit());
          if (std::max(forwards.size(), commits.size()) > kUsualGraphs) return;
          keys.push_back(key);
        }
      }
      if (context >= bounds.context) break;
    }
  };
  add(1, 1, false);
  if (bounds.drafts == 0) return keys;
  add(1, 1, true);
  if (bounds.drafts > 3) add(4, 4, true);
  add(1 + bounds.drafts, bounds.draft_span_rows, true);
  return keys;
}

}  // namespace slipstream
