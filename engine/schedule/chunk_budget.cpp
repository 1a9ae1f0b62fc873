#include "engine/schedule/chunk_budget.h"

#include <algorithm>

namespace slipstream {

int32_t ChunkBudget::prefill_rows(int32_t decode_rows) const {
  if (budget_ms_ <= 0 || decode_rows == 0) return max_rows_;
  if (row_ms_ <= 0) return std::min(kFirstRows, max_rows_);
  const double rows = (budget_ms_ - decode_ms_) / row_ms_;
  return static_cast<int32_t>(
      std::clamp(rows, static_cast<double>(std::min(kFewestRows, max_rows_)), static_cast<double>(max_rows_)));
}

void ChunkBudget::record(int32_t decode_rows, int32_t prefill_rows, double ms) {
  if (ms <= 0 || decode_rows + prefill_rows == 0) return;
  const auto mix = [](double* average, double value) {
    *average = *average <= 0 ? value : *average + kWeight * (value - *average);
  };
  if (prefill_rows == 0) {
    mix(&decode_ms_, ms);
    return;
  }
  // Short chunks are dominated by reading the weights; they would make a row look dearer than it is in a long chunk,
  // which errs on the side of the budget.
  const double decode = decode_rows > 0 ? std::min(decode_ms_, 0.9 * ms) : 0;
  mix(&row_ms_, (ms - decode) / prefill_rows);
}

}  // namespace slipstream
