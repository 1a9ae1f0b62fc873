// The token masks of one span's rows, from the state of its choice and the drafts that it verifies. Pure but for the state,
// which is back where it was afterwards. Knows no plan and no scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/token_constraint.h"

namespace slipstream {

struct RowMasksInput {
  std::span<const int32_t> drafts;     // row i + 1 is drawn behind drafts[0 .. i]
  std::span<const int32_t> stop_ids;   // a draft of these ends the choice: no row behind it counts
  int32_t early_rows = 0;              // leading rows that draw a token before min_tokens, so no stop id, if anything else may come
  int32_t vocab = 0;
};

/// Masks of leading rows, as far as drafts reach and the constraint follows them; an empty one allows every token. Behind a
/// draft that its row's mask refuses nothing is looked at, so rows from there on stay empty.
/// Returns how many rows are lawful: what later ones draw does not count. 0: nothing may be drawn at all.
int32_t mask_rows(TokenConstraint& constraint, const RowMasksInput& input, std::span<std::vector<uint32_t>> rows);

}  // namespace slipstream
