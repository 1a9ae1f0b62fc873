// A step over its logit rows alone, made on the device: for the last layer, whose other rows nobody reads. Owns the narrowed
// arrays; knows no layer.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/context.h"
#include "kernels/cuda/step_view.h"

namespace slipstream::cuda {

class StepNarrow {
 public:
  static constexpr int32_t kMaxRows = 512, kMaxSpans = 512;

  explicit StepNarrow(Context& context);

  static bool supports(const StepView& step, std::span<const int32_t> logit_rows) {
    return logit_rows.size() <= kMaxRows && step.spans <= kMaxSpans;
  }
  /// Row i of the view is row logit_rows[i] of `step`: ascending host numbers, copied into the launch; those of one span that
  /// run follow one another. Spans and block tables stay as they are. Valid until the next call.
  const StepView& build(const StepView& step, std::span<const int32_t> logit_rows);

 private:
  Context& context_;
  Buffer arrays_;  // positions, row_span [kMaxRows], then span_first_row, span_rows, span_context [kMaxSpans]
  StepView view_;
};

}  // namespace slipstream::cuda
