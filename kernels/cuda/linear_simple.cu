// The slow twin of every product: one warp an output element, weights by packed_value, float arithmetic. It is also the
// product of F32 weights and of columns that are not whole 16-byte chunks.
//
// Grid: (n / 8, m); 256 threads. Bytes: the weight once an activation row.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/f8_codes.cuh"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_tile.cuh"
#include "kernels/cuda/packed_format.cuh"

namespace slipstream::cuda {
namespace {

struct SimpleParams {
  const uint8_t* weight;
  int64_t tile_bytes;
  F8Scales scales;         // F8_E4M3 only
  int64_t n, k;
  // The activation in one of its forms; the others are null.
  const float* f32;        // [m, k]
  const uint16_t* bf16;    // [m, k]
  const int8_t* q;         // [m, k]
  const float* scale;      // [m, k / 32]
  const float* bias;       // [n] or null
  float* out;              // row r at out + r * out_stride
  int64_t out_stride;
};

template <DType D>
__device__ float weight_value(const SimpleParams& p, int64_t n, int64_t k) {
  if constexpr (D == DType::kF32) {
    return reinterpret_cast<const float*>(p.weight)[n * p.k + k];
  } else if constexpr (D == DType::kBF16) {
    return __uint_as_float(static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(p.weight)[n * p.k + k]) << 16);
  } else if constexpr (D == DType::kF16) {
    return half_bits_to_float(reinterpret_cast<const uint16_t*>(p.weight)[n * p.k + k]);
  } else if constexpr (D == DType::kF8E4M3) {
    return e4m3_to_float(p.weight[n * p.k + k]) * f8_scale(p.scales, n, k);
  } else {
    constexpr PackedFormat F = packed_format(D);
    const int64_t stage = k / kStageElements;
    return packed_value<D>(p.weight + n / kTileRows * p.tile_bytes + stage * F.stage_bytes(), static_cast<int>(n % kTileRows),
                           static_cast<int>(k % kStageElements / kBlock), static_cast<int>(k % kBlock));
  }
}

template <DType D>
__global__ void __launch_bounds__(256) simple_kernel(SimpleParams p) {
  const int lane = threadIdx.x % 32;
  const int64_t n = int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  const int64_t m = blockIdx.y;
  if (n >= p.n) return;
  float sum = 0.0f;
  for (int64_t k = lane; k < p.k; k += 32) {
    float x;
    if (p.f32 != nullptr) x = p.f32[m * p.k + k];
    else if (p.q != nullptr) x = static_cast<float>(p.q[m * p.k + k]) * p.scale[m * (p.k / kBlock) + k / kBlock];
    else x = __uint_as_float(static_cast<uint32_t>(p.bf16[m * p.k + k]) << 16);
    sum = fmaf(weight_value<D>(p, n, k), x, sum);
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (lane == 0) p.out[m * p.out_stride + n] = sum + (p.bias == nullptr ? 0.0f : p.bias[n]);
}

}  // namespace

void simple_segment(Context& context, const WeightSegment& segment, const Activation& x, const float* bias, float* out,
                    int64_t out_stride) {
  SimpleParams p{};
  p.weight = reinterpret_cast<const uint8_t*>(segment.data);
  p.tile_bytes = segment.tile_bytes;
  p.scales = segment.scales;
  p.n = segment.rows;
  p.k = x.cols;
  const bool block = packed_format(segment.dtype).bits != 0;
  if (block && x.q != nullptr) p.q = x.q, p.scale = x.scale;  // the form that the fast kernel of the format reads
  else if (segment.dtype != DType::kF32 && x.bf16 != nullptr) p.bf16 = x.bf16;
  else p.f32 = x.f32;
  CHECK(p.q != nullptr || p.bf16 != nullptr || p.f32 != nullptr, "the activation lacks the form that the weight wants");
  p.bias = bias;
  p.out = out;
  p.out_stride = out_stride;
  for (int32_t first = 0; first < x.rows; first += 65535) {
    const dim3 grid(static_cast<unsigned>((segment.rows + 7) / 8), static_cast<unsigned>(std::min(x.rows - first, 65535)));
    const auto launch = [&]<DType D>() { simple_kernel<D><<<grid, 256, 0, context.stream()>>>(p); };
    if (segment.dtype == DType::kF32) launch.operator()<DType::kF32>();
    else if (segment.dtype == DType::kF16) launch.operator()<DType::kF16>();
    else if (segment.dtype == DType::kBF16) launch.operator()<DType::kBF16>();
    else if (segment.dtype == DType::kF8E4M3) launch.operator()<DType::kF8E4M3>();
    else CHECK(with_block_format(segment.dtype, launch), "a product of integers");
    context.check_launch("simple linear");
    if (p.f32 != nullptr) p.f32 += int64_t{65535} * p.k;
    if (p.bf16 != nullptr) p.bf16 += int64_t{65535} * p.k;
    if (p.q != nullptr) p.q += int64_t{65535} * p.k, p.scale += int64_t{65535} * (p.k / kBlock);
    p.out += int64_t{65535} * p.out_stride;
  }
}

void linear_simple(Context& context, const CudaWeight& w, const Activation& x, const float* bias, float* out) {
  for (const WeightSegment& s : w.segments())
    simple_segment(context, s, x, bias == nullptr ? nullptr : bias + s.first_row, out + s.first_row, w.rows());
}

}  // namespace slipstream::cuda
