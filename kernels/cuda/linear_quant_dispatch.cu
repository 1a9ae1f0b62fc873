// From a block format at run time to its instantiation (linear_q4_k.cu and its siblings), and the dequantisation that
// cuBLASLt needs.
#include "kernels/check.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_quant.cuh"
#include "kernels/cuda/linear_shape.h"

namespace slipstream::cuda {

template <DType D>
void launch_quant_format(Context& context, QuantLinearParams params, const TileShape& shape);
template <DType D>
size_t quant_format_shared_bytes(const TileShape& shape, int32_t m);

void launch_quant(Context& context, DType dtype, QuantLinearParams params, const TileShape& shape) {
  const bool known = with_block_format(dtype, [&]<DType D>() { launch_quant_format<D>(context, params, shape); });
  CHECK(known, "a quantised product of a plain format");
}

size_t quant_shared_bytes(DType dtype, const TileShape& shape, int32_t m) {
  size_t bytes = 0;
  with_block_format(dtype, [&]<DType D>() { bytes = quant_format_shared_bytes<D>(shape, m); });
  return bytes;
}

namespace {

struct DequantiseParams {
  const uint8_t* tiles;  // from the first tile of the launch
  int64_t tile_bytes;
  int64_t rows, cols;
  uint16_t* out;         // [rows, cols] bf16
};

__device__ uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// Grid: (stages / 4, tiles); 128 threads, a warp a stage. Reads the codes once, writes 2 bytes an element.
template <DType D>
__global__ void __launch_bounds__(128) dequantise_kernel(DequantiseParams p) {
  using Kernel = QuantKernel<D, 1, 1, 1>;
  constexpr PackedFormat F = packed_format(D);
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int64_t stage = int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  if (stage * kStageElements >= p.cols) return;
  const int blocks = static_cast<int>(min(int64_t{kStageBlocks}, p.cols / kBlock - stage * kStageBlocks));
  const uint8_t* w = p.tiles + int64_t{blockIdx.y} * p.tile_bytes + stage * Kernel::kSlotBytes;
  typename Kernel::RowScales scales[2];
  for (int r = 0; r < 2; ++r) scales[r].load(w + kStagePairs * Kernel::kPairBytes, g + 8 * r);
#pragma unroll
  for (int pair = 0; pair < kStagePairs; ++pair) {
    uint32_t a[2][4];
    Kernel::unpack(w, pair, lane, a);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int b = 2 * pair + h;
      if (b >= blocks) continue;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int64_t row = int64_t{blockIdx.y} * kTileRows + g + 8 * r;
        if (row >= p.rows) continue;
        uint32_t packed[2][2];  // elements of registers r and r + 2
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t word = a[h][r + 2 * half];
          const float scale = scales[r].scale(b, F.per16 ? half : 0) * Kernel::kFactor;
          const float min = F.has_min ? scales[r].min(b, F.per16 ? half : 0) : 0.0f;
          float v[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) v[i] = fmaf(scale, static_cast<float>(static_cast<int8_t>(word >> (8 * i))), min);
          packed[half][0] = bf16_pair(v[0], v[1]);
          packed[half][1] = bf16_pair(v[2], v[3]);
        }
        uint16_t* out = p.out + row * p.cols + stage * kStageElements + b * kBlock;
        if constexpr (F.per16) {
          *reinterpret_cast<uint2*>(out + 4 * t) = make_uint2(packed[0][0], packed[0][1]);
          *reinterpret_cast<uint2*>(out + 16 + 4 * t) = make_uint2(packed[1][0], packed[1][1]);
        } else {
          *reinterpret_cast<uint4*>(out + 8 * t) = make_uint4(packed[0][0], packed[0][1], packed[1][0], packed[1][1]);
        }
      }
    }
  }
}

}  // namespace

void dequantise_rows(Context& context, const WeightSegment& segment, int64_t cols, int64_t first, int64_t rows, uint16_t* out) {
  CHECK(first % kTileRows == 0, "dequantisation starts at a tile");
  const DequantiseParams p{reinterpret_cast<const uint8_t*>(segment.data) + first / kTileRows * segment.tile_bytes,
                           segment.tile_bytes, rows, cols, out};
  const int64_t stages = (cols + kStageElements - 1) / kStageElements;
  const dim3 grid(static_cast<unsigned>((stages + 3) / 4), static_cast<unsigned>((rows + kTileRows - 1) / kTileRows));
  CHECK(grid.y < 65536, "a slice of too many rows");
  const bool known = with_block_format(segment.dtype, [&]<DType D>() { dequantise_kernel<D><<<grid, 128, 0, context.stream()>>>(p); });
  CHECK(known, "only block formats are dequantised");
  context.check_launch("dequantise");
}

}  // namespace slipstream::cuda
