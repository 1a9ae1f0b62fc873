// The scales of F8_E4M3 segments on the device: laid out for the kernels, and NaN where a code is. Loading only.
#include <limits>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/packed_format.cuh"

namespace slipstream::cuda {
namespace {

int64_t blocks_along_k(const WeightPart& part) {
  return (part.scales.first_col % part.scales.block_cols + part.cols - 1) / part.scales.block_cols + 1;
}

struct MarkParams {
  const uint8_t* codes;  // [rows, cols]
  int64_t rows, cols;
  F8Scales scales;
  float* out;            // the scales again
};

/// Grid: any; a thread tests 16 codes at a time. Bytes: the codes once.
__global__ void __launch_bounds__(256) mark_nan_kernel(MarkParams p) {
  const int64_t count = p.rows * p.cols;
  for (int64_t at = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 16; at < count; at += int64_t{gridDim.x} * blockDim.x * 16) {
    const uint4 v = *reinterpret_cast<const uint4*>(p.codes + at);  // the segment's memory is a multiple of 16 bytes
    uint32_t found = 0;
    for (const uint32_t word : {v.x, v.y, v.z, v.w}) found |= __vcmpeq4(word & 0x7f7f7f7fu, 0x7f7f7f7fu);
    if (found == 0) continue;
    for (int64_t i = at; i < min(at + 16, count); ++i) {
      if ((p.codes[i] & 0x7f) != 0x7f) continue;
      const int64_t row = i / p.cols;
      const int64_t block = (p.scales.first + i - row * p.cols) / p.scales.block_cols;
      p.out[row / p.scales.group_rows * p.scales.k_blocks + block] = __int_as_float(0x7fc00000);
    }
  }
}

}  // namespace

F8Scales plan_f8_scales(const WeightPart& part, int64_t segment_row) {
  const WeightScales& s = part.scales;
  F8Scales out;
  out.k_blocks = static_cast<int32_t>(blocks_along_k(part));
  const bool one = out.k_blocks == 1;
  out.block_cols = one ? std::numeric_limits<int32_t>::max() : static_cast<int32_t>(s.block_cols);
  out.first = one ? 0 : static_cast<int32_t>(s.first_col % s.block_cols);
  const bool whole_tiles = segment_row % kTileRows == 0 && s.first_row % kTileRows == 0 && s.block_rows % kTileRows == 0;
  out.group_rows = whole_tiles ? kTileRows : 1;
  return out;
}

void fill_f8_scales(WeightStream& stream, const WeightPart& part, int64_t segment_row, const F8Scales& scales, float* out) {
  const int32_t group = scales.group_rows;
  CHECK(segment_row % group == 0, "scales of a part that starts inside a group");
  const int64_t groups = (part.rows + group - 1) / group;
  const int64_t blocks = scales.k_blocks;
  std::vector<float> host;
  host.reserve(static_cast<size_t>(groups * blocks));
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t b = 0; b < blocks; ++b)
      host.push_back(part.scales.at(g * group, b == 0 ? 0 : b * int64_t{scales.block_cols} - scales.first));
  const int64_t bytes = blocks * int64_t{sizeof(float)};
  stream.copy(reinterpret_cast<const std::byte*>(host.data()), bytes, groups, bytes,
              reinterpret_cast<std::byte*>(out + segment_row / group * blocks));
}

void mark_nan_codes(Context& context, const WeightSegment& segment, int64_t cols, float* scales) {
  const MarkParams p{reinterpret_cast<const uint8_t*>(segment.data), segment.rows, cols, segment.scales, scales};
  mark_nan_kernel<<<static_cast<unsigned>(context.facts().multiprocessors * 8), 256, 0, context.stream()>>>(p);
  context.check_launch("NaN codes");
}

}  // namespace slipstream::cuda
