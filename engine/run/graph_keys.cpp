#include "engine/run/graph_keys.h"

namespace slipstream {

std::vector<StepKey> usual_graphs(const GraphBounds& bounds) {
  std::vector<StepKey> keys;
  const auto add = [&](int32_t span_rows, int32_t span_class, bool drafts) {
    for (int32_t context = padded_context(1, bounds.context);; context = padded_context(context + 1, bounds.context)) {
      int32_t last = 0;
      for (int32_t spans = 1; last < bounds.slots; spans = padded_rows(spans + 1)) {
        last = spans;
        const int32_t rows = std::min(padded_rows(spans * span_rows), bounds.max_rows);
        for (const CommitVariant commit : {CommitVariant::kGreedy, CommitVariant::kSampled})
          keys.push_back({rows, spans, span_class, context, commit, drafts});
      }
      if (context >= bounds.context) break;
    }
  };
  add(1, 1, bounds.drafts > 0);
  if (bounds.drafts > 0) add(1 + bounds.drafts, bounds.draft_span_rows, true);
  return keys;
}

}  // namespace slipstream
