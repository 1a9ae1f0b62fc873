// See embed.h. Grid: (rows, chunks of 1024 columns); a thread makes 4 values. Bytes: the row, and 4 a value written.
#include "kernels/cuda/embed.h"

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_tile.cuh"
#include "kernels/cuda/packed_format.cuh"

namespace slipstream::cuda {
namespace {

struct EmbedParams {
  const uint8_t* data;       // of one segment
  int64_t tile_bytes;
  int64_t first_row, rows;   // of the segment
  int64_t table_rows, cols;
  const int32_t* token_ids;  // [gridDim.x]
  float scale;
  float* out;                // [gridDim.x, cols]
};

template <DType D>
__global__ void __launch_bounds__(256) embed_kernel(EmbedParams p) {
  release_dependents();
  wait_for_inputs();
  const int64_t id = min(max(int64_t{p.token_ids[blockIdx.x]}, int64_t{0}), p.table_rows - 1);
  const int64_t row = id - p.first_row;
  if (row < 0 || row >= p.rows) return;  // another segment's
  float* out = p.out + int64_t{blockIdx.x} * p.cols;
  for (int i = 0; i < 4; ++i) {
    const int64_t k = int64_t{blockIdx.y} * 1024 + i * 256 + threadIdx.x;
    if (k >= p.cols) return;
    float value;
    if constexpr (D == DType::kF32) {
      value = reinterpret_cast<const float*>(p.data)[row * p.cols + k];
    } else if constexpr (D == DType::kBF16) {
      value = __uint_as_float(static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(p.data)[row * p.cols + k]) << 16);
    } else if constexpr (D == DType::kF16) {
      value = half_bits_to_float(reinterpret_cast<const uint16_t*>(p.data)[row * p.cols + k]);
    } else {
      constexpr PackedFormat F = packed_format(D);
      const int64_t stage = k / kStageElements;
      value = packed_value<D>(p.data + row / kTileRows * p.tile_bytes + stage * F.stage_bytes(), static_cast<int>(row % kTileRows),
                              static_cast<int>(k % kStageElements / kBlock), static_cast<int>(k % kBlock));
    }
    out[k] = p.scale * value;
  }
}

}  // namespace

void embed(Context& context, const CudaWeight& table, const int32_t* token_ids, int32_t rows, float scale, float* out) {
  if (rows == 0) return;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>((table.cols() + 1023) / 1024));
  for (const WeightSegment& segment : table.segments()) {
    const EmbedParams p{reinterpret_cast<const uint8_t*>(segment.data), segment.tile_bytes, segment.first_row, segment.rows,
                        table.rows(), table.cols(), token_ids, scale, out};
    const bool block = with_block_format(segment.dtype, [&]<DType D>() { cuda::launch(context, "embed", embed_kernel<D>, grid, dim3(256), 0, p); });
    if (segment.dtype == DType::kF32) cuda::launch(context, "embed", embed_kernel<DType::kF32>, grid, dim3(256), 0, p);
    else if (segment.dtype == DType::kF16) cuda::launch(context, "embed", embed_kernel<DType::kF16>, grid, dim3(256), 0, p);
    else if (segment.dtype == DType::kBF16) cuda::launch(context, "embed", embed_kernel<DType::kBF16>, grid, dim3(256), 0, p);
    else CHECK(block, "a table of integers");
    context.check_launch("embed");
  }
}

}  // namespace slipstream::cuda
