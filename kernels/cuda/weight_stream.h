// The way of weights from the mapped file to the device: pinned staging, copies, and nothing about formats.
//
// Thread: the loading thread of its rank. Lives while weights are loaded; its memory is given back with it.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cuda/context.h"

namespace slipstream::cuda {

/// Rows of a mapped matrix go through two pinned buffers in turn, so that reading the file (a few threads: one alone
/// copies no more than about 10 GB/s) overlaps the transfer.
class WeightStream {
 public:
  static constexpr size_t kChunkBytes = size_t{32} << 20;

  explicit WeightStream(Context& context);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  /// Copies `rows` rows of row_bytes each, row r at source + r * stride, in chunks of whole groups of `group` rows
  /// (16 rows must fit kChunkBytes). With a target, rows land there, row after row. Without, each chunk lands in device
  /// staging and `consume(staging, first_row, rows)` launches what reads it, on the context's stream.
  using Consume = std::function<void(const std::byte* staging, int64_t first_row, int64_t rows)>;
  void copy(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, std::byte* target);
  void copy(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, int64_t group,
            const Consume& consume);

 private:
  std::byte* fill(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes);
  void sent();

  Context& context_;
  std::byte* pinned_[2] = {};
  cudaEvent_t free_[2] = {};  // recorded when the transfer out of the buffer was queued
  Buffer staging_;
  int next_ = 0;
};

}  // namespace slipstream::cuda
