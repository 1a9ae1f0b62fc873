// Copies a host's StepInputs to the device: the eager path's twin of device-resident slots. Owns the staging and the
// device arrays; one per rank, worker thread only.
#pragma once

#include <array>

#include "kernels/cuda/context.h"
#include "kernels/cuda/step_view.h"
#include "kernels/ops.h"

namespace slipstream::cuda {

/// A prefill chunk is a span of more rows than this.
inline constexpr int32_t kMaxDecodeRows = 16;

class StepUpload {
 public:
  explicit StepUpload(Context& context) : context_(context) {}
  ~StepUpload();
  StepUpload(const StepUpload&) = delete;
  StepUpload& operator=(const StepUpload&) = delete;

  /// Room for a step of these bounds, so that upload allocates nothing.
  void reserve(int32_t max_rows, int32_t max_spans, int32_t groups, int32_t max_blocks);
  /// Asynchronous; the view stays valid until the kRegions-th upload after it. Grows when a step passes the reserve.
  const StepView& upload(const StepInputs& step);

 private:
  static constexpr size_t kRegions = 4;
  struct Region {
    int32_t* host = nullptr;  // pinned
    Buffer device;
    size_t words = 0;
    cudaEvent_t copied = nullptr;
    StepView view;
  };
  void grow(Region* region, size_t words);

  Context& context_;
  std::array<Region, kRegions> regions_;
  size_t next_ = 0;
};

}  // namespace slipstream::cuda
