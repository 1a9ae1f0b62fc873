// Allowed-token masks of a step's logit rows on the way to their laws: one bit a token, as SampleRow::mask. They come after
// the laws were placed (a grammar reads the step before first), so they travel apart and are put into the laws by a launch
// whose arguments never change. Owns the memory and the staging; knows no grammar and no slot.
//
// Thread: the worker thread of its rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/sample.h"

namespace slipstream::cuda {

class TokenMasks {
 public:
  /// Allocates for max_rows logit rows, on the device and (twice) in pinned memory. Throws DeviceError.
  TokenMasks(Context& context, int32_t max_rows, int32_t vocab);
  ~TokenMasks();
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;
  static size_t device_bytes(int32_t max_rows, int32_t vocab);

  /// One asynchronous copy of what the step has; rows past the end and empty ones are "all allowed". A row has
  /// ceil(vocab / 32) words. Nothing is copied while neither this step nor the one before it has a mask.
  void upload(std::span<const std::vector<uint32_t>> rows);
  /// Capturable: sets laws[r].mask for r < rows as the last upload says.
  void apply(DeviceSampleRow* laws, int32_t rows);

 private:
  struct Staging {
    std::byte* bytes = nullptr;  // pinned
    cudaEvent_t copied = nullptr;
  };

  Context& context_;
  const int32_t max_rows_;
  const size_t words_;      // of a mask
  Buffer device_;           // index [max_rows]: which mask, or -1; then masks [max_rows, words]
  std::array<Staging, 2> staging_;
  size_t next_ = 0;
  bool masked_ = false;     // whether the device's index names a mask
};

}  // namespace slipstream::cuda
