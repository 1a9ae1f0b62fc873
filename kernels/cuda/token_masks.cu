// See token_masks.h.
#include "kernels/cuda/token_masks.h"

#include <cstring>

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"

namespace slipstream::cuda {
namespace {

constexpr size_t kAlign = 16;

size_t words_of(int32_t vocab) { return (static_cast<size_t>(vocab) + 31) / 32; }
size_t index_bytes(int32_t max_rows) { return (static_cast<size_t>(max_rows) * sizeof(int32_t) + kAlign - 1) / kAlign * kAlign; }

/// Grid: rows / 128 blocks of 128 threads; 12 bytes a row.
__global__ void apply_kernel(const int32_t* index, const uint32_t* masks, int32_t max_rows, int64_t words, DeviceSampleRow* laws,
                             int32_t rows) {
  release_dependents();
  wait_for_inputs();
  const int32_t r = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  const int32_t at = index[r];
  laws[r].mask = at < 0 || at >= max_rows ? nullptr : masks + at * words;
}

}  // namespace

TokenMasks::TokenMasks(Context& context, int32_t max_rows, int32_t vocab)
    : context_(context), max_rows_(max_rows), words_(words_of(vocab)), device_(context.allocate(device_bytes(max_rows, vocab))) {
  if (context.dry()) return;  // sizes alone are wanted
  check(cudaMemsetAsync(device_.data(), 0xff, index_bytes(max_rows), context.stream()), "cudaMemsetAsync");
  for (Staging& staging : staging_) {
    check(cudaMallocHost(reinterpret_cast<void**>(&staging.bytes), device_.bytes()), "pinned memory for token masks");
    check(cudaEventCreateWithFlags(&staging.copied, cudaEventDisableTiming), "an event");
  }
}

TokenMasks::~TokenMasks() {
  for (Staging& staging : staging_) {
    if (staging.copied != nullptr) cudaEventDestroy(staging.copied);
    if (staging.bytes != nullptr) cudaFreeHost(staging.bytes);
  }
}

size_t TokenMasks::device_bytes(int32_t max_rows, int32_t vocab) {
  return index_bytes(max_rows) + static_cast<size_t>(max_rows) * words_of(vocab) * sizeof(uint32_t);
}

void TokenMasks::upload(std::span<const std::vector<uint32_t>> rows) {
  CHECK(rows.size() <= static_cast<size_t>(max_rows_), "token masks for more rows than a step has");
  bool any = false;
  for (const std::vector<uint32_t>& row : rows) any = any || !row.empty();
  if (!any && !masked_) return;
  Staging& staging = staging_[next_];
  next_ = (next_ + 1) % staging_.size();
  check(cudaEventSynchronize(staging.copied), "an earlier upload of token masks");
  auto* index = reinterpret_cast<int32_t*>(staging.bytes);
  std::byte* const masks = staging.bytes + index_bytes(max_rows_);
  const size_t bytes = words_ * sizeof(uint32_t);
  size_t used = 0;
  for (size_t r = 0; r < static_cast<size_t>(max_rows_); ++r) {
    const bool masked = r < rows.size() && !rows[r].empty();
    index[r] = masked ? static_cast<int32_t>(used) : -1;
    if (!masked) continue;
    CHECK(rows[r].size() == words_, "a token mask of another vocabulary");
    std::memcpy(masks + used++ * bytes, rows[r].data(), bytes);
  }
  check(cudaMemcpyAsync(device_.data(), staging.bytes, index_bytes(max_rows_) + used * bytes, cudaMemcpyHostToDevice, context_.stream()),
        "upload of token masks");
  check(cudaEventRecord(staging.copied, context_.stream()), "cudaEventRecord");
  masked_ = any;
}

void TokenMasks::apply(DeviceSampleRow* laws, int32_t rows) {
  CHECK(rows <= max_rows_, "token masks for more rows than a step has");
  if (rows == 0) return;
  const auto* index = device_.as<const int32_t>();
  const auto* masks = reinterpret_cast<const uint32_t*>(device_.as<std::byte>() + index_bytes(max_rows_));
  launch(context_, "token masks", apply_kernel, dim3(static_cast<unsigned>((rows + 127) / 128)), dim3(128), 0, index, masks, max_rows_,
         static_cast<int64_t>(words_), laws, rows);
}

}  // namespace slipstream::cuda
