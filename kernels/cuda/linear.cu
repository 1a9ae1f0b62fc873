// See linear.h: the dispatch.
#include "kernels/cuda/linear.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/linear_f8.cuh"
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
/// Whether the kernels of BF16 rows serve a segment that is no block format.
bool is_fast(const WeightSegment& s, int64_t cols) {
  return s.dtype == DType::kF8E4M3 ? f8_fast(s, cols) : is_half(s.dtype) && whole_chunks(cols);
}

__global__ void halves_kernel(const uint16_t* bf16, int64_t pairs, uint16_t* f16) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < pairs) reinterpret_cast<uint32_t*>(f16)[i] = bf16x2_to_f16x2(reinterpret_cast<const uint32_t*>(bf16)[i]);
}

/// One launch of a tensor-core kernel for some rows of an activation. Block formats store their sums, whatever `finish`.
void few_rows(Context& context, LinearScratch& scratch, const WeightSegment& s, const TileShape& shape, const Activation& x,
              const float* bias, float* out, int64_t out_stride, const LinearFinish& finish = {}) {
  const auto k = static_cast<int32_t>(x.cols);
  const LinearOutput o{bias, out, out_stride, x.rows, static_cast<int32_t>(s.rows), shape.splits, scratch.partials(), scratch.counters()};
  if (is_block(s.dtype)) {
    CHECK(x.q != nullptr, "the activation lacks the form that the weight wants");
    QuantLinearParams p{};
    p.weight = reinterpret_cast<const uint8_t*>(s.data);
    p.tile_bytes = s.tile_bytes;
    p.tiles = static_cast<int32_t>((s.rows + kTileRows - 1) / kTileRows);
    p.k = k, p.x = x.q, p.x_scale = x.scale, p.x_sum = x.sum, p.o = o;
    return launch_quant(context, s.dtype, p, shape);
  }
  if (s.dtype == DType::kF8E4M3) {
    F8LinearParams p{};
    p.weight = reinterpret_cast<const uint8_t*>(s.data);
    p.scales = s.scales;
    p.k = k, p.x = x.bf16, p.o = o, p.f = finish;
    return launch_f8(context, p, shape);
  }
  FloatLinearParams p{};
  p.weight = reinterpret_cast<const uint16_t*>(s.data);
  p.k = k, p.x = x.bf16, p.o = o, p.f = finish;
  launch_float(context, s.dtype, p, shape);
}

/// out: the segment's first column of row 0, float or, by kind, BF16.
void many_rows(Context& context, LinearScratch& scratch, const WeightSegment& s, const Activation& x, const float* bias,
               void* out, int64_t out_stride, BlasOut kind = BlasOut::kFloat) {
  BlasProduct p{};
  p.kind = kind;
  p.m = x.rows;
  p.k = x.cols;
  p.x = x.bf16;
  p.out_stride = out_stride;
  if (!needs_slice(s.dtype)) {
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
    (s.dtype == DType::kF8E4M3 ? dequantise_f8_rows : dequantise_rows)(context, s, x.cols, first, p.n, scratch.slice());
    p.bias = bias == nullptr ? nullptr : bias + first;
    p.out = kind == BlasOut::kBF16 ? static_cast<void*>(static_cast<uint16_t*>(out) + first) : static_cast<float*>(out) + first;
    scratch.blas()->multiply(context, p, scratch.workspace());
  }
}

LinearFinish taking(const PendingNorm& pending) {
  LinearFinish f;
  f.x_squares = pending.groups > 0 ? pending.squares : nullptr;
  f.x_groups = pending.groups;
  f.eps = pending.eps;
  return f;
}

/// The segments of a weight that linear_finishes serves, each in a launch that finishes.
void fused(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out,
           const LinearFinish& finish) {
  for (const WeightSegment& s : w.segments())
    few_rows(context, scratch, s, scratch.choose(s.dtype, s.rows, x.cols, x.rows).fused, x, bias == nullptr ? nullptr : bias + s.first_row,
             out == nullptr ? nullptr : out + s.first_row, w.rows(), finish);
}

}  // namespace

uint8_t activation_forms(const CudaWeight& weight) {
  uint8_t forms = 0;
  for (const WeightSegment& s : weight.segments()) {
    if (is_block(s.dtype)) forms |= kActInt8Block32 | kActBF16;
    else if (is_half(s.dtype) || s.dtype == DType::kF8E4M3) forms |= kActBF16;
    else forms |= kActF32;
  }
  return forms;
}

void linear(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out,
            const PendingNorm& pending) {
  CHECK(x.cols == w.cols(), "the activation does not fit the weight");
  if (x.rows == 0) return;
  if (pending.groups > 0) {
    CHECK(linear_takes(scratch, w, x), "a product that does not take a pending norm");
    return fused(context, scratch, w, x, bias, out, taking(pending));
  }
  for (const WeightSegment& s : w.segments()) {
    const float* segment_bias = bias == nullptr ? nullptr : bias + s.first_row;
    float* segment_out = out + s.first_row;
    const bool block = is_block(s.dtype);
    if (!block && !(is_fast(s, x.cols) && x.bf16 != nullptr)) {
      simple_segment(context, s, x, segment_bias, segment_out, w.rows());
      continue;
    }
    const LinearChoice choice = scratch.choose(s.dtype, s.rows, x.cols, x.rows);
    if (choice.blas && x.bf16 != nullptr) {
      many_rows(context, scratch, s, x, segment_bias, segment_out, w.rows());
    } else {
      const TileShape shape = choice.blas ? choose_shape(context, s.dtype, x.rows, s.rows, x.cols) : choice.shape;
      few_rows(context, scratch, s, shape, x, segment_bias, segment_out, w.rows());
    }
  }
}

bool linear_takes(const LinearScratch& scratch, const CudaWeight& w, const Activation& x) {
  return std::ranges::none_of(w.segments(), [](const WeightSegment& s) { return s.dtype == DType::kF16; }) && linear_finishes(scratch, w, x);
}

bool linear_finishes(const LinearScratch& scratch, const CudaWeight& w, const Activation& x) {
  if (x.rows > kFusedRows || x.bf16 == nullptr) return false;
  return std::ranges::all_of(w.segments(), [&](const WeightSegment& s) {
    return is_fast(s, x.cols) && scratch.choose(s.dtype, s.rows, x.cols, x.rows).fused.wk > 1;
  });
}

bool swiglu_fuses(const LinearScratch& scratch, const CudaWeight& w, const Activation& x, const Activation& out) {
  return w.segments().size() == 1 && w.rows() % 16 == 0 && out.forms == kActBF16 && linear_finishes(scratch, w, x);
}

bool add_norm_fuses(const LinearScratch& scratch, const CudaWeight& w, const Activation& x, const Activation* out) {
  return w.segments().size() == 1 && w.rows() % 32 == 0 && w.rows() <= kFusedCols && (out == nullptr || out->forms == kActBF16) &&
         linear_finishes(scratch, w, x);
}

void fused_swiglu(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const PendingNorm& pending,
                  const float* bias, const Activation& out) {
  LinearFinish finish = taking(pending);
  finish.kind = Finish::kSwiglu;
  finish.rounded = out.bf16;
  fused(context, scratch, w, x, bias, nullptr, finish);
}

PendingNorm fused_add_norm(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias,
                           float* residual, const float* norm, float eps, const Activation* out, float* squares) {
  LinearFinish finish;
  finish.kind = Finish::kAdd;
  finish.residual = residual;
  if (norm != nullptr) finish.norm = norm, finish.squares = squares, finish.rounded = out->bf16;
  fused(context, scratch, w, x, bias, nullptr, finish);
  if (norm == nullptr) return {};
  const WeightSegment& s = w.segments().front();
  const LinearChoice choice = scratch.choose(s.dtype, s.rows, x.cols, x.rows);
  return {squares, static_cast<int32_t>(w.rows() / squares_group(choice.fused.wr)), eps};
}

bool blas_serves(const LinearScratch& scratch, const CudaWeight& w, const Activation& x) {
  if (x.bf16 == nullptr || scratch.blas() == nullptr) return false;
  return std::ranges::all_of(w.segments(), [&](const WeightSegment& s) {
    return (is_block(s.dtype) || is_fast(s, x.cols)) && scratch.choose(s.dtype, s.rows, x.cols, x.rows).blas;
  });
}

void linear_to_bf16(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, uint16_t* out,
                    int64_t out_stride) {
  for (const WeightSegment& s : w.segments()) {
    CHECK(s.dtype != DType::kF16, "cuBLASLt rounds F16 products to F16");
    many_rows(context, scratch, s, x, nullptr, out + s.first_row, out_stride, BlasOut::kBF16);
  }
}

void linear_add(Context& context, LinearScratch& scratch, const CudaWeight& w, const Activation& x, const float* bias, float* out) {
  for (const WeightSegment& s : w.segments())
    many_rows(context, scratch, s, x, bias == nullptr ? nullptr : bias + s.first_row, out + s.first_row, w.rows(), BlasOut::kAddToFloat);
}

std::vector<KernelChoice> linear_report(const LinearScratch& scratch) {
  const std::string& reason = scratch.no_blas_reason();
  if (scratch.deterministic()) {
    const std::string groups = "row-exact, K in " + std::to_string(kExactGroups) + " groups for any number of rows";
    return {{"linear BF16, F16", "mma.sync, " + groups, reason},
            {"linear, block formats", "int8 mma.sync, weights stay quantised; " + groups, reason},
            {"linear F8_E4M3", "codes to BF16 in registers, mma.sync (W8A16), " + groups, reason},
            {"linear F32", "row-exact, one warp an element", "F32 weights are small: norms and gates"}};
  }
  const std::string many = reason.empty() ? "; cuBLASLt above " : "; the same above ";
  return {{"linear BF16, F16", "mma.sync" + many + "some " + std::to_string(kFewRowsFloat) + " rows (measured for each shape)", reason},
          {"linear, block formats", "int8 mma.sync, weights stay quantised" + many + std::to_string(kFewRowsQuant) + " rows", reason},
          {"linear F8_E4M3", "codes to BF16 in registers, mma.sync (W8A16)" + many + std::to_string(kFewRowsQuant) + " rows, on dequantised slices",
           "activations stay in 16 bits: FP8 ones would change results, and few rows are bound by the weights' bytes"},
          {"linear F32", "one warp an element", "F32 weights are small: norms and gates"}};
}

}  // namespace slipstream::cuda
