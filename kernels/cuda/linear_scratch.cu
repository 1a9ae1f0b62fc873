// See linear_scratch.h.
#include "kernels/cuda/linear_scratch.h"

#include <algorithm>

#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_f8.cuh"
#include "kernels/cuda/linear_float.cuh"
#include "kernels/cuda/linear_limits.h"
#include "kernels/cuda/linear_quant.cuh"

namespace slipstream::cuda {
namespace {

bool is_block(DType dtype) { return packed_format(dtype).bits != 0; }

/// Sums of several warps meet in shared memory, from where they are finished.
bool finishes(DType dtype, const TileShape& s, int32_t m) { return m <= kFusedRows && s.wk > 1 && !is_block(dtype); }

/// What a launch that finishes may be slower by: the launches that it saves take longer.
constexpr float kFinishUs = 3;

/// Median microseconds of `launch` with cold caches.
template <class Launch>
float time_cold(Context& context, Buffer& flush, cudaEvent_t begin, cudaEvent_t end, Launch&& launch) {
  constexpr int kRepeats = 3;
  float times[kRepeats];
  for (int i = -1; i < kRepeats; ++i) {  // the first one loads the kernel
    check(cudaMemsetAsync(flush.data(), 0, flush.bytes(), context.stream()), "cudaMemsetAsync");
    check(cudaEventRecord(begin, context.stream()), "cudaEventRecord");
    launch();
    check(cudaEventRecord(end, context.stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end), "tuning a product");
    if (i >= 0) check(cudaEventElapsedTime(&times[i], begin, end), "cudaEventElapsedTime");
  }
  std::sort(times, times + kRepeats);
  return times[kRepeats / 2] * 1000.0f;
}

}  // namespace

int64_t slice_rows(int64_t cols) { return std::max<int64_t>(kSliceBytes / 2 / cols / 256 * 256, 256); }

LinearScratch::LinearScratch(Context& context)
    : context_(context),
      no_blas_reason_(context.deterministic() ? "deterministic: its sums depend on the number of rows" : ""),
      blas_(context.deterministic() ? nullptr : BlasLt::load(&no_blas_reason_)),
      partials_(context.allocate(kPartialFloats * sizeof(float))),
      counters_(context.allocate(kCounters * sizeof(int32_t))) {}

void LinearScratch::plan(const CudaWeight& weight) {
  if (weight.spec().role == WeightRole::kEmbedding) return;
  for (const WeightSegment& s : weight.segments()) {
    const bool half = s.dtype == DType::kF16 || s.dtype == DType::kBF16;
    const bool f8 = s.dtype == DType::kF8E4M3 && f8_fast(s, weight.cols());
    if (is_block(s.dtype) || f8 || (half && weight.cols() % 8 == 0)) shapes_[{s.dtype, s.rows, weight.cols()}] = {s, weight.spec().role == WeightRole::kRowLinear};
  }
}

size_t LinearScratch::slice_bytes(int32_t max_rows) const {
  size_t bytes = 0;
  if (blas_ == nullptr || max_rows <= kFewRowsQuant) return bytes;
  for (const auto& [shape, planned] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    if (needs_slice(dtype)) bytes = std::max(bytes, static_cast<size_t>(std::min(rows, slice_rows(cols)) * cols) * 2);
  }
  return bytes;
}

size_t LinearScratch::half_row_bytes(int32_t max_rows) const {
  size_t bytes = 0;
  if (blas_ == nullptr) return bytes;
  for (const auto& [shape, planned] : shapes_)
    if (std::get<0>(shape) == DType::kF16) bytes = std::max(bytes, static_cast<size_t>(std::get<2>(shape) * max_rows) * 2);
  return bytes;
}

size_t LinearScratch::bytes(int32_t max_rows) const {
  return static_cast<size_t>(kPartialFloats) * sizeof(float) + static_cast<size_t>(kCounters) * sizeof(int32_t) +
         (blas_ == nullptr ? 0 : BlasLt::kWorkspaceBytes) + slice_bytes(max_rows) + half_row_bytes(max_rows);
}

void LinearScratch::reserve(int32_t max_rows) {
  if (blas_ != nullptr) workspace_ = context_.allocate(BlasLt::kWorkspaceBytes);
  slice_ = context_.allocate(slice_bytes(max_rows));
  half_rows_ = context_.allocate(half_row_bytes(max_rows));
  if (!context_.deterministic()) tune(max_rows);
}

LinearChoice LinearScratch::choose(DType dtype, int64_t rows, int64_t cols, int32_t m) const {
  const auto known = choices_.find({{dtype, rows, cols}, row_bucket(m)});
  if (known != choices_.end()) return known->second;
  const bool block = needs_slice(dtype);
  LinearChoice choice;
  choice.blas = m > few_rows(dtype) && workspace_.data() != nullptr &&
                (!block || slice_.data() != nullptr) && (dtype != DType::kF16 || half_rows_.data() != nullptr);
  if (!choice.blas) choice.shape = choose_shape(context_, dtype, m, rows, cols);
  if (context_.deterministic()) return choice;  // what is fused, and what is not, would follow from the number of rows
  if (finishes(dtype, choice.shape, m)) choice.fused = choice.shape;
  return choice;
}

void LinearScratch::tune(int32_t max_rows) {
  constexpr int64_t kOutBytes = int64_t{1} << 30;  // products with more output are rare and far from a tie
  int64_t row_bytes = 0;
  int64_t out_bytes = 0;
  for (const auto& [shape, planned] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    row_bytes = std::max(row_bytes, cols * std::max(row_bucket(max_rows), 64) * 2);
    out_bytes = std::max(out_bytes, std::min(rows * std::max(row_bucket(max_rows), 64) * 4, kOutBytes));
  }
  if (row_bytes == 0) return;
  Buffer x = context_.allocate(static_cast<size_t>(row_bytes));
  Buffer out = context_.allocate(static_cast<size_t>(out_bytes));
  Buffer flush = context_.allocate(context_.facts().l2_bytes * 2);
  if (context_.dry()) return;
  // As BF16 and as float 0.0115, as a half 1.06, as int8 60.
  check(cudaMemsetAsync(x.data(), 0x3c, x.bytes(), context_.stream()), "cudaMemsetAsync");
  for (const auto& [shape, planned] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    const bool block = needs_slice(dtype);
    const int32_t few = std::min(row_bucket(max_rows), few_rows(dtype));
    for (int32_t m = 1; m <= few && rows * m * 4 <= kOutBytes; m *= 2) tune_few(shape, planned.segment, m, x.data(), out.as<float>(), flush);
    if (blas_ == nullptr || (block && slice_.data() == nullptr)) continue;
    for (int32_t m = 2 * few; m / 2 < max_rows && rows * m * 4 <= kOutBytes; m *= 2)
      tune_many(shape, planned, m, x.data(), out.data(), flush);
  }
  context_.synchronize();
}

void LinearScratch::tune_many(const Shape& shape, const Planned& planned, int32_t m, const void* rows_in, void* out, Buffer& flush) {
  const auto& [dtype, rows, cols] = shape;
  const bool block = needs_slice(dtype);
  BlasProduct p{block ? DType::kBF16 : dtype, m, block ? std::min(rows, slice_rows(cols)) : rows, cols,
                block ? slice_.data() : planned.segment.data, rows_in, nullptr, out, rows};
  // Rows that go on to a norm are added to the residual, the others are rounded to BF16; logits, of a few hundred rows at
  // most, stay float.
  constexpr int32_t kLogitRows = 512;
  p.kind = planned.adds ? BlasOut::kAddToFloat : dtype == DType::kF16 ? BlasOut::kFloat : BlasOut::kBF16;
  blas_->tune(context_, p, workspace_.data(), flush.data(), flush.bytes());
  if (p.kind != BlasOut::kBF16 || m > kLogitRows) return;
  p.kind = BlasOut::kFloat;
  blas_->tune(context_, p, workspace_.data(), flush.data(), flush.bytes());
}

void LinearScratch::tune_few(const Shape& shape, const WeightSegment& segment, int32_t m, void* rows_in, float* out,
                             Buffer& flush) {
  const auto& [dtype, rows, cols] = shape;
  const std::byte* data = segment.data;
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  float best = -1, best_fused = -1;
  LinearChoice choice;
  const LinearOutput o{nullptr, out, rows, m, static_cast<int32_t>(rows), 1, partials(), counters()};
  for (const TileShape& s : candidate_shapes(context_, dtype, m, rows, cols)) {
    const float us = time_cold(context_, flush, begin, end, [&] {
      if (is_block(dtype)) {
        QuantLinearParams p{};
        p.weight = reinterpret_cast<const uint8_t*>(data);
        p.tile_bytes = packed_format(dtype).tile_bytes(cols);
        p.tiles = static_cast<int32_t>((rows + kTileRows - 1) / kTileRows);
        p.k = static_cast<int32_t>(cols);
        p.x = static_cast<const int8_t*>(rows_in);
        p.x_scale = static_cast<const float*>(rows_in);
        p.x_sum = static_cast<const int32_t*>(rows_in);
        p.o = o;
        launch_quant(context_, dtype, p, s);
      } else if (dtype == DType::kF8E4M3) {
        launch_f8(context_, {reinterpret_cast<const uint8_t*>(data), segment.scales, static_cast<int32_t>(cols),
                             static_cast<const uint16_t*>(rows_in), s.stages, o}, s);
      } else {
        launch_float(context_, dtype, {reinterpret_cast<const uint16_t*>(data), static_cast<int32_t>(cols),
                                       static_cast<const uint16_t*>(rows_in), s.stages, o, {}}, s);
      }
    });
    if (best < 0 || us < best) best = us, choice.shape = s;
    if (finishes(dtype, s, m) && (best_fused < 0 || us < best_fused)) best_fused = us, choice.fused = s;
  }
  if (best_fused > best + kFinishUs) choice.fused = {};
  if (blas_ != nullptr && !needs_slice(dtype) && m >= 16) {
    const BlasProduct p{dtype, m, rows, cols, data, rows_in, nullptr, out, rows};
    const float us = blas_->tune(context_, p, workspace_.data(), flush.data(), flush.bytes());
    choice.blas = us > 0 && us < best;
  }
  choices_[{shape, row_bucket(m)}] = choice;
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
}

}  // namespace slipstream::cuda
