#include "engine/sample/row_masks.h"

#include <algorithm>

namespace slipstream {
namespace {

bool any_bit(std::span<const uint32_t> mask) {
  return std::ranges::any_of(mask, [](uint32_t word) { return word != 0; });
}

bool allows(std::span<const uint32_t> mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32)) & 1u;
}

/// Bits of ids below vocab.
void allow_all(int32_t vocab, std::vector<uint32_t>* mask) {
  mask->assign((static_cast<size_t>(vocab) + 31) / 32, ~uint32_t{0});
  if (vocab % 32 != 0) mask->back() = (uint32_t{1} << (vocab % 32)) - 1;
}

/// Stop ids go before min_tokens, unless they alone are left: the constraint wins.
bool forbid_stops(std::span<const int32_t> stop_ids, std::vector<uint32_t>* mask) {
  std::vector<uint32_t> without = *mask;
  for (const int32_t id : stop_ids) without[static_cast<size_t>(id) / 32] &= ~(uint32_t{1} << (static_cast<uint32_t>(id) % 32));
  if (!any_bit(without)) return false;
  *mask = std::move(without);
  return true;
}

}  // namespace

int32_t mask_rows(TokenConstraint& constraint, const RowMasksInput& input, std::span<std::vector<uint32_t>> rows) {
  const auto all = static_cast<int32_t>(rows.size());
  const auto drafts = static_cast<int32_t>(std::min(input.drafts.size(), rows.size() - 1));
  int32_t lawful = all, accepted = 0;
  for (int32_t row = 0; row <= drafts; ++row) {
    std::vector<uint32_t>& mask = rows[static_cast<size_t>(row)];
    allow_all(input.vocab, &mask);
    bool narrowed = !constraint.ended() && constraint.narrow(mask);
    if (constraint.ended() || (narrowed && !any_bit(mask))) {
      mask.clear();
      lawful = row;
      break;
    }
    if (row < input.early_rows && !input.stop_ids.empty()) narrowed = forbid_stops(input.stop_ids, &mask) || narrowed;
    const int32_t draft = row < drafts ? input.drafts[static_cast<size_t>(row)] : -1;
    const bool follows = draft >= 0 && draft < input.vocab && allows(mask, draft) && std::ranges::find(input.stop_ids, draft) == input.stop_ids.end();
    if (!narrowed) mask.clear();
    if (!follows) break;
    constraint.accept(draft);
    ++accepted;
  }
  if (accepted > 0) constraint.rollback(accepted);
  return lawful;
}

}  // namespace slipstream
