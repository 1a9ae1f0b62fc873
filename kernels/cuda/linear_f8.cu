// F8_E4M3 products with few activation rows (linear_f8.cuh), and rows as BF16 for cuBLASLt.
#include "kernels/cuda/linear_f8.cuh"

#include "kernels/check.h"
#include "kernels/cuda/linear_launch.cuh"

namespace slipstream::cuda {

bool f8_fast(const WeightSegment& segment, int64_t cols) {
  const F8Scales& s = segment.scales;
  return cols % 16 == 0 && (s.k_blocks == 1 || (s.block_cols % kF8Block == 0 && s.first % kF8Block == 0));
}

size_t f8_shared_bytes(const TileShape& s, int32_t m) {
  if (s.wgmma) return f8_wgmma_shared_bytes(s);
#define SLIPSTREAM_CASE(NT, WR, WK) \
  if (s.nt == NT && s.wr == WR && s.wk == WK) return F8Kernel<NT, WR, WK>::shared_bytes(m, s.stages, s.serial);
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  return 0;
}

void launch_f8(Context& context, F8LinearParams p, const TileShape& s) {
  p.stages = s.stages;
  p.o.splits = s.splits;
  p.o.serial = s.serial;
  if (p.scales.k_blocks == 1) p.scales.block_cols = 0;
  if (s.wgmma) return launch_f8_wgmma(context, p, s);
#define SLIPSTREAM_CASE(NT, WR, WK)                                                                               \
  if (s.nt == NT && s.wr == WR && s.wk == WK)                                                                     \
    return launch_linear(context, f8_linear_kernel<NT, WR, WK>, p, linear_grid(s, p.o), 32 * WR * WK,             \
                         f8_shared_bytes(s, p.o.m), "FP8 linear");
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_CASE)
#undef SLIPSTREAM_CASE
  CHECK(false, "a block shape that is not built");
}

namespace {

struct DequantiseParams {
  const uint8_t* codes;  // [rows, cols]
  F8Scales scales;
  int64_t first, cols;
  int64_t chunks;        // of 16 elements
  uint16_t* out;         // [rows, cols]
};

__device__ uint32_t scaled_pair(uint32_t pair, float scale) {
  const float low = __uint_as_float(pair << 16) * scale;
  const float high = __uint_as_float(pair & 0xffff0000u) * scale;
  const __nv_bfloat162 rounded = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&rounded);
}

/// Grid: 256 chunks of 16 elements a block, one a thread. Bytes: 1 read and 2 written an element.
__global__ void __launch_bounds__(256) dequantise_f8_kernel(DequantiseParams p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.chunks) return;
  const int64_t row = i * 16 / p.cols;
  const float scale = f8_scale(p.scales, p.first + row, i * 16 - row * p.cols);
  const uint4 codes = reinterpret_cast<const uint4*>(p.codes)[i];
  const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  uint32_t out[8];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    uint32_t low, high;
    e4m3_to_bf16(words[w], low, high);
    out[2 * w] = scaled_pair(low, scale);
    out[2 * w + 1] = scaled_pair(high, scale);
  }
  auto* to = reinterpret_cast<uint4*>(p.out) + 2 * i;
  to[0] = make_uint4(out[0], out[1], out[2], out[3]);
  to[1] = make_uint4(out[4], out[5], out[6], out[7]);
}

}  // namespace

void dequantise_f8_rows(Context& context, const WeightSegment& segment, int64_t cols, int64_t first, int64_t rows, uint16_t* out) {
  CHECK(f8_fast(segment, cols), "FP8 rows of a shape that the fast kernels do not serve");
  const DequantiseParams p{reinterpret_cast<const uint8_t*>(segment.data) + first * cols, segment.scales, first, cols,
                           rows * cols / 16, out};
  dequantise_f8_kernel<<<static_cast<unsigned>((p.chunks + 255) / 256), 256, 0, context.stream()>>>(p);
  context.check_launch("dequantise FP8");
}

}  // namespace slipstream::cuda
