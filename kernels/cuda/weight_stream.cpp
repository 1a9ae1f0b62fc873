#include "kernels/cuda/weight_stream.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/check.h"

namespace slipstream::cuda {
namespace {

constexpr int64_t kThreads = 4;
constexpr int64_t kThreadBytes = 4 << 20;  // below this one thread is faster than starting another

void gather(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes, std::byte* out) {
  if (stride == row_bytes) {
    std::memcpy(out, source, static_cast<size_t>(rows * row_bytes));
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(out + r * row_bytes, source + r * stride, static_cast<size_t>(row_bytes));
}

}  // namespace

WeightStream::WeightStream(Context& context) : context_(context), staging_(context.allocate(kChunkBytes)) {
  for (int i = 0; i < 2; ++i) {
    check(cudaMallocHost(reinterpret_cast<void**>(&pinned_[i]), kChunkBytes), "pinned memory for weights");
    check(cudaEventCreateWithFlags(&free_[i], cudaEventDisableTiming), "an event for weights");
    check(cudaEventRecord(free_[i], context_.stream()), "an event for weights");
  }
}

WeightStream::~WeightStream() {
  (void)cudaStreamSynchronize(context_.stream());
  for (int i = 0; i < 2; ++i) {
    (void)cudaEventDestroy(free_[i]);
    (void)cudaFreeHost(pinned_[i]);
  }
}

std::byte* WeightStream::fill(const std::byte* source, int64_t stride, int64_t rows, int64_t row_bytes) {
  check(cudaEventSynchronize(free_[next_]), "waiting for a transfer of weights");
  std::byte* out = pinned_[next_];
  const int64_t threads = std::clamp<int64_t>(rows * row_bytes / kThreadBytes, 1, std::min(kThreads, rows));
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < threads; ++i) {
    const int64_t begin = rows * i / threads;
    const int64_t end = rows * (i + 1) / threads;
    others.emplace_back([=] { gather(source + begin * stride, stride, end - begin, row_bytes, out + begin * row_bytes); });
  }
  gather(source, stride, rows / threads, row_bytes, out);
  return out;
}

void WeightStream::sent() {
  check(cudaEventRecord(free_[next_], context_.stream()), "an event for weights");
  next_ ^= 1;
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
  const int64_t per_chunk = static_cast<int64_t>(kChunkBytes) / row_bytes / group * group;
  CHECK(per_chunk > 0, "a group of rows of a weight is larger than the staging");
  for (int64_t r = 0; r < rows; r += per_chunk) {
    const int64_t count = std::min(per_chunk, rows - r);
    const std::byte* host = fill(source + r * stride, stride, count, row_bytes);
    check(cudaMemcpyAsync(staging_.data(), host, static_cast<size_t>(count * row_bytes), cudaMemcpyHostToDevice,
                          context_.stream()),
          "copying weights to the device");
    sent();
    consume(staging_.as<std::byte>(), r, count);  // the next transfer waits for it: one stream
  }
}

}  // namespace slipstream::cuda
