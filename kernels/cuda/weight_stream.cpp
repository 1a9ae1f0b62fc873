#include "kernels/cuda/weight_stream.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace slipstream::cuda {
namespace {

constexpr int32_t kReaders = 12;           // past these the bus, not the cores, limits
constexpr int64_t kPieceBytes = 1 << 20;   // one thread's share at a time

}  // namespace

void WeightStream::acquire() {
  if (readers_ != nullptr) return;
  readers_ = std::make_unique<ThreadPool>(std::min(kReaders, available_cores()));
  for (Pinned& pinned : pinned_) {
    check(cudaMallocHost(reinterpret_cast<void**>(&pinned.data), kChunkBytes), "pinned memory for weights");
    check(cudaEventCreateWithFlags(&pinned.free, cudaEventDisableTiming), "an event for weights");
    check(cudaEventRecord(pinned.free, context_.stream()), "an event for weights");
  }
}

std::byte* WeightStream::staging() {
  // not counted as the context's: it is gone before anything is served
  if (staging_ == nullptr) check(cudaMalloc(reinterpret_cast<void**>(&staging_), kChunkBytes), "staging for weights");
  return staging_;
}

void WeightStream::release() {
  if (readers_ == nullptr && staging_ == nullptr) return;
  (void)cudaStreamSynchronize(context_.stream());
  for (Pinned& pinned : pinned_) {
    if (pinned.free != nullptr) (void)cudaEventDestroy(pinned.free);
    if (pinned.data != nullptr) (void)cudaFreeHost(pinned.data);
    pinned = {};
  }
  readers_.reset();
  if (staging_ != nullptr) (void)cudaFree(staging_);
  staging_ = nullptr;
}

const std::byte* WeightStream::fill(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes) {
  acquire();
  check(cudaEventSynchronize(pinned_[next_].free), "waiting for a transfer of weights");
  std::byte* const out = pinned_[next_].data;
  const bool dense = stride == row_bytes;
  // dense rows are cut anywhere, others between rows
  const int64_t units = dense ? rows * row_bytes : rows;
  const int64_t per_piece = dense ? kPieceBytes : std::max<int64_t>(1, kPieceBytes / row_bytes);
  readers_->parallel_for((units + per_piece - 1) / per_piece, [&](int64_t piece) {
    const int64_t first = piece * per_piece;
    const int64_t count = std::min(per_piece, units - first);
    if (dense) {
      std::memcpy(out + first, source + first, static_cast<size_t>(count));
      return;
    }
    for (int64_t r = first; r < first + count; ++r)
      std::memcpy(out + r * row_bytes, source + r * stride, static_cast<size_t>(row_bytes));
  });
  return out;
}

void WeightStream::sent() {
  check(cudaEventRecord(pinned_[next_].free, context_.stream()), "an event for weights");
  next_ = (next_ + 1) % kChunks;
}

void WeightStream::copy(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, std::byte* target) {
  const int64_t per_chunk = static_cast<int64_t>(kChunkBytes) / row_bytes;
  CHECK(per_chunk > 0, "a row of a weight is larger than the staging");
  for (int64_t r = 0; r < rows; r += per_chunk) {
    const int64_t count = std::min(per_chunk, rows - r);
    const std::byte* host = fill(source + r * stride, stride, count, row_bytes);
    check(cudaMemcpyAsync(target + r * row_bytes, host, static_cast<size_t>(count * row_bytes), cudaMemcpyHostToDevice,
                          context_.stream()),
          "copying weights to the device");
    sent();
  }
}

void WeightStream::copy(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, int64_t group,
                        const Consume& consume) {
  make(rows, row_bytes, group, [&](std::byte* device, int64_t first, int64_t count) {
    const std::byte* host = fill(source + first * stride, stride, count, row_bytes);
    check(cudaMemcpyAsync(device, host, static_cast<size_t>(count * row_bytes), cudaMemcpyHostToDevice, context_.stream()),
          "copying weights to the device");
    sent();
    consume(device, first, count);  // the next transfer waits for it: one stream
  });
}

void WeightStream::make(int64_t rows, int64_t row_bytes, int64_t group, const Produce& produce) {
  const int64_t per_chunk = static_cast<int64_t>(kChunkBytes) / row_bytes / group * group;
  CHECK(per_chunk > 0, "a group of rows of a weight is larger than the staging");
  for (int64_t r = 0; r < rows; r += per_chunk) produce(staging(), r, std::min(per_chunk, rows - r));
}

}  // namespace slipstream::cuda
