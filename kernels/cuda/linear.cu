// See linear.h: scratch and dispatch.
#include "kernels/cuda/linear.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/linear_float.cuh"
#include "kernels/cuda/linear_limits.h"
#include "kernels/cuda/linear_quant.cuh"
#include "kernels/cuda/linear_shape.h"

namespace slipstream::cuda {

void simple_segment(Context& context, const WeightSegment& segment, const Activation& x, const float* bias, float* out,
                    int64_t out_stride);  // linear_simple.cu

namespace {

bool is_block(DType dtype) { return packed_format(dtype).bits != 0; }
bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
/// cp.async and cuBLASLt want rows of whole 16-byte chunks.
bool whole_chunks(int64_t cols) { return cols % 8 == 0; }

int64_t slice_rows(int64_t cols) { return std::max<int64_t>(kSliceBytes / 2 / cols / 256 * 256, 256); }

__global__ void halves_kernel(const uint16_t* bf16, int64_t pairs, uint16_t* f16) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < pairs) reinterpret_cast<uint32_t*>(f16)[i] = bf16x2_to_f16x2(reinterpret_cast<const uint32_t*>(bf16)[i]);
}

void few_rows_quant(Context& context, LinearScratch& scratch, const WeightSegment& s, const Activation& x, const float* bias,
                    float* out, int64_t out_stride) {
  const int64_t tiles = (s.rows + kTileRows - 1) / kTileRows;
  const TileShape shape =
      choose_quant_shape(context, s.dtype, x.rows, tiles, (x.cols + kStageElements - 1) / kStageElements);
  QuantLinearParams p{};
  p.weight = reinterpret_cast<const uint8_t*>(s.data);
  p.tile_bytes = s.tile_bytes;
  p.tiles = static_cast<int32_t>(tiles);
  p.k = static_cast<int32_t>(x.cols);
  p.x = x.q;
  p.x_scale = x.scale;
  p.o = {bias, out, out_stride, x.rows, static_cast<int32_t>(s.rows), shape.splits, scratch.partials(), scratch.counters()};
  launch_quant(context, s.dtype, p, shape);
}

void few_rows_float(Context& context, LinearScratch& scratch, const WeightSegment& s, const Activation& x, const float* bias,
                    float* out, int64_t out_stride) {
  const int64_t tiles = (s.rows + 15) / 16;
  const TileShape shape = choose_float_shape(context, x.rows, tiles, (x.cols + kFloatStage - 1) / kFloatStage);
  FloatLinearParams p{};
  p.weight = reinterpret_cast<const uint16_t*>(s.data);
  p.k = static_cast<int32_t>(x.cols);
  p.x = x.bf16;
  p.o = {bias, out, out_stride, x.rows, static_cast<int32_t>(s.rows), shape.splits, scratch.partials(), scratch.counters()};
  launch_float(context, s.dtype, p, shape);
}

void many_rows(Context& context, LinearScratch& scratch, const WeightSegment& s, const Activation& x, const float* bias,
               float* out, int64_t out_stride) {
  BlasProduct p{};
  p.m = x.rows;
  p.k = x.cols;
  p.x = x.bf16;
  p.out_stride = out_stride;
  if (!is_block(s.dtype)) {
    if (s.dtype == DType::kF16) {
      const int64_t pairs = int64_t{x.rows} * x.cols / 2;
      halves_kernel<<<static_cast<unsigned>((pairs + 255) / 256), 256, 0, context.stream()>>>(x.bf16, pairs, scratch.half_rows());
      context.check_launch("activations as halves");
      p.x = scratch.half_rows();
    }
    p.dtype = s.dtype;
    p.n = s.rows;
    p.w = s.data;
    p.bias = bias;
    p.out = out;
    return scratch.blas()->multiply(context, p, scratch.workspace());
  }
  p.dtype = DType::kBF16;
  p.w = scratch.slice();
  for (int64_t first = 0; first < s.rows; first += slice_rows(x.cols)) {
    p.n = std::min(slice_rows(x.cols), s.rows - first);
    dequantise_rows(context, s, x.cols, first, p.n, scratch.slice());
    p.bias = bias == nullptr ? nullptr : bias + first;
    p.out = out + first;
    scratch.blas()->multiply(context, p, scratch.workspace());
  }
}

}  // namespace

LinearScratch::LinearScratch(Context& context)
    : context_(context),
      blas_(BlasLt::load(&no_blas_reason_)),
      partials_(context.allocate(kPartialFloats * sizeof(float))),
      counters_(context.allocate(kCounters * sizeof(int32_t))) {}

void LinearScratch::plan(const CudaWeight& weight) {
  for (const WeightSegment& s : weight.segments()) {
    if (!is_block(s.dtype) && !(is_half(s.dtype) && whole_chunks(weight.cols()))) continue;
    if (is_block(s.dtype)) {
      const int64_t slice = std::min(slice_rows(weight.cols()), s.rows);
      shapes_[{s.dtype, slice, weight.cols()}] = nullptr;
      if (s.rows % slice != 0) shapes_[{s.dtype, s.rows % slice, weight.cols()}] = nullptr;
    } else {
      shapes_[{s.dtype, s.rows, weight.cols()}] = s.data;
    }
  }
}

size_t LinearScratch::bytes(int32_t max_rows) const {
  size_t bytes = static_cast<size_t>(kPartialFloats) * sizeof(float) + static_cast<size_t>(kCounters) * sizeof(int32_t);
  if (blas_ == nullptr) return bytes;
  size_t slice = 0;
  size_t halves = 0;
  for (const auto& [shape, data] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    if (is_block(dtype) && max_rows > kFewRowsQuant) slice = std::max(slice, static_cast<size_t>(rows * cols) * 2);
    if (dtype == DType::kF16) halves = std::max(halves, static_cast<size_t>(cols * max_rows) * 2);
  }
  return bytes + slice + halves + BlasLt::kWorkspaceBytes;
}

void LinearScratch::reserve(int32_t max_rows) {
  if (blas_ == nullptr) return;
  size_t slice = 0;
  size_t halves = 0;
  for (const auto& [shape, data] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    if (is_block(dtype) && max_rows > kFewRowsQuant) slice = std::max(slice, static_cast<size_t>(rows * cols) * 2);
    if (dtype == DType::kF16) halves = std::max(halves, static_cast<size_t>(cols * max_rows) * 2);
  }
  workspace_ = context_.allocate(BlasLt::kWorkspaceBytes);
  slice_ = context_.allocate(slice);
  half_rows_ = context_.allocate(halves);
  tune(max_rows);
}

void LinearScratch::tune(int32_t max_rows) {
  constexpr int64_t kOutBytes = int64_t{1} << 30;  // products with more output are rare and far from a tie
  int64_t x_bytes = 0;
  int64_t out_bytes = 0;
  for (const auto& [shape, data] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    x_bytes = std::max(x_bytes, cols * row_bucket(max_rows) * 2);
    out_bytes = std::max(out_bytes, std::min(rows * row_bucket(max_rows) * 4, kOutBytes));
  }
  if (x_bytes == 0) return;
  Buffer x = context_.allocate(static_cast<size_t>(x_bytes));
  Buffer out = context_.allocate(static_cast<size_t>(out_bytes));
  Buffer flush = context_.allocate(context_.facts().l2_bytes * 2);
  check(cudaMemsetAsync(x.data(), 0x3c, x.bytes(), context_.stream()), "cudaMemsetAsync");  // 0.0115 in BF16, 1.06 in F16
  for (const auto& [shape, data] : shapes_) {
    const auto& [dtype, rows, cols] = shape;
    const int32_t few = is_block(dtype) ? kFewRowsQuant : kFewRowsFloat;
    const bool sliced = is_block(dtype);
    if (sliced && slice_.data() == nullptr) continue;
    for (int32_t m = 2 * row_bucket(few / 2 + 1); m / 2 < max_rows && rows * m * 4 <= kOutBytes; m *= 2) {
      const BlasProduct p{sliced ? DType::kBF16 : dtype, m, rows, cols, sliced ? slice_.data() : data, x.data(), nullptr,
                          out.as<float>(), rows};
      blas_->tune(context_, p, workspace_.data(), flush.data(), flush.bytes());
    }
  }
  context_.synchronize();
}

uint8_t activation_forms(const CudaWeight& weight) {
  uint8_t forms = 0;
  for (const WeightSegment& s : weight.segments()) {
    if (is_block(s.dtype)) forms |= kActInt8Block32 | kActBF16;
    else if (is_half(s.dtype)) forms |= kActBF16;
    else forms |= kActF32;
  }
  return forms;
}

void linear(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out) {
  CHECK(x.cols == w.cols(), "the activation does not fit the weight");
  if (x.rows == 0) return;
  for (const WeightSegment& s : w.segments()) {
    const float* segment_bias = bias == nullptr ? nullptr : bias + s.first_row;
    float* segment_out = out + s.first_row;
    const bool blas = scratch.blas() != nullptr && x.bf16 != nullptr && scratch.workspace() != nullptr;
    if (is_block(s.dtype)) {
      const bool many = x.rows > kFewRowsQuant && blas && scratch.slice() != nullptr;
      CHECK(many || x.q != nullptr, "the activation lacks the form that the weight wants");
      (many ? many_rows : few_rows_quant)(context, scratch, s, x, segment_bias, segment_out, w.rows());
    } else if (is_half(s.dtype) && whole_chunks(x.cols) && x.bf16 != nullptr) {
      const bool many = x.rows > kFewRowsFloat && blas;
      (many ? many_rows : few_rows_float)(context, scratch, s, x, segment_bias, segment_out, w.rows());
    } else {
      simple_segment(context, s, x, segment_bias, segment_out, w.rows());
    }
  }
}

std::vector<KernelChoice> linear_report(const LinearScratch& scratch) {
  const std::string& reason = scratch.no_blas_reason();
  const std::string many = reason.empty() ? "; cuBLASLt above " : "; the same above ";
  return {{"linear BF16, F16", "mma.sync" + many + std::to_string(kFewRowsFloat) + " rows", reason},
          {"linear, block formats", "int8 mma.sync, weights stay quantised" + many + std::to_string(kFewRowsQuant) + " rows", reason},
          {"linear F32", "one warp an element", "F32 weights are small: norms and gates"}};
}

}  // namespace slipstream::cuda
