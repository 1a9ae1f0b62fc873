// How many prefill rows a step may carry while others decode, from measured step times. Engine thread only. Changes
// chunking only, never a result.
#pragma once

#include <cstdint>

namespace slipstream {

class ChunkBudget {
 public:
  /// budget_ms <= 0 switches it off.
  ChunkBudget(double budget_ms, int32_t max_rows) : budget_ms_(budget_ms), max_rows_(max_rows) {}

  /// Prefill rows that a step with `decode_rows` other rows may carry; all of max_rows when nobody decodes.
  int32_t prefill_rows(int32_t decode_rows) const;
  /// One finished step.
  void record(int32_t decode_rows, int32_t prefill_rows, double ms);

  double row_ms() const { return row_ms_; }

 private:
  static constexpr double kWeight = 0.2;     // of the newest measurement in each moving average
  static constexpr int32_t kFirstRows = 32;  // before anything is measured
  static constexpr int32_t kFewestRows = 8;  // a prompt always gets on, however slow the machine

  const double budget_ms_;
  const int32_t max_rows_;
  double decode_ms_ = 0;  // of a step without prefill; 0: not measured
  double row_ms_ = 0;     // of one prefill row; 0: not measured
};

}  // namespace slipstream
