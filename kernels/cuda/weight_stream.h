// The way of weights from the mapped file to the device: pinned staging, copies, and nothing about formats.
//
// Thread: the loading thread of its rank. Memory and threads are taken at the first use and given back by release.
// Measured on a machine of one H200 with 16 cores: pinned memory to device 55 GB/s; copies from a mapped file in the page cache into such
// buffers, beside the transfers, 22 GB/s with 4 threads, 52 with 8, 54 with 12; the file's own read (pread) is no faster (46 with
// 8), nor are streaming stores or populating the mapping first.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/context.h"

namespace slipstream::cuda {

/// Rows of a mapped matrix go through pinned buffers in turn: a few threads read the file into one (one alone copies no
/// more than about 5 GB/s, and a disk wants several requests at once) while the device takes the others.
class WeightStream {
 public:
  static constexpr size_t kChunkBytes = size_t{32} << 20;
  static constexpr size_t kChunks = 3;  // pinned; two would wait for each other whenever one side is late

  explicit WeightStream(Context& context) : context_(context) {}
  ~WeightStream() { release(); }
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  /// Copies `rows` rows of row_bytes each, row r at source + r * stride, in chunks of whole groups of `group` rows
  /// (16 rows must fit kChunkBytes). With a target, rows land there, row after row. Without, each chunk lands in device
  /// staging and `consume(staging, first_row, rows)` launches what reads it, on the context's stream. Returns when the last
  /// transfer has been queued; the source may go then.
  using Consume = std::function<void(const std::byte* staging, int64_t first_row, int64_t rows)>;
  void copy(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, std::byte* target);
  void copy(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, int64_t group,
            const Consume& consume);
  /// The same without a source: `produce(staging, first_row, rows)` launches what fills and what reads each chunk.
  using Produce = std::function<void(std::byte* staging, int64_t first_row, int64_t rows)>;
  void make(int64_t rows, int64_t row_bytes, int64_t group, const Produce& produce);

  /// Waits for what is queued and gives the memory back; a later copy takes it again.
  void release();

 private:
  struct Pinned {
    std::byte* data = nullptr;
    cudaEvent_t free = nullptr;  // recorded when the transfer out of the buffer was queued
  };

  void acquire();
  std::byte* staging();
  const std::byte* fill(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes);
  void sent();

  Context& context_;
  std::array<Pinned, kChunks> pinned_;
  std::unique_ptr<ThreadPool> readers_;
  std::byte* staging_ = nullptr;  // on the device
  size_t next_ = 0;
};

}  // namespace slipstream::cuda
