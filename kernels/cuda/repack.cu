// From stored GGUF blocks (kernels/formats.h) to tiles (packed_format.cuh), on the device. Loading only.
//
// Grid: (stages, tiles); 128 threads: one per block pair and lane. Each gathers its 32 codes byte by byte; reads hit L1
// and L2, so that it runs well above any PCIe rate.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/packed_format.cuh"

namespace slipstream::cuda {
namespace {

/// Code of element e of 32-block j (0 unless the stored block has 256) of the stored block b.
template <DType D>
__device__ int raw_code(const uint8_t* b, int j, int e) {
  const int half = j / 4;
  const int quarter = j % 4;
  const auto split = [e](const uint8_t* nibbles) { return (nibbles[e % 16] >> (e < 16 ? 0 : 4)) & 15; };
  if constexpr (D == DType::kQ4_0 || D == DType::kIQ4_NL) return split(b + 2);
  if constexpr (D == DType::kQ4_1) return split(b + 4);
  if constexpr (D == DType::kQ5_0) return split(b + 6) | ((b[2 + e / 8] >> (e % 8)) & 1) << 4;
  if constexpr (D == DType::kQ5_1) return split(b + 8) | ((b[4 + e / 8] >> (e % 8)) & 1) << 4;
  if constexpr (D == DType::kQ8_0) return b[2 + e];
  if constexpr (D == DType::kMXFP4) return split(b + 1);
  if constexpr (D == DType::kIQ4_XS) return split(b + 8 + 16 * j);
  if constexpr (D == DType::kQ2_K) return (b[16 + 32 * half + e] >> (2 * quarter)) & 3;
  if constexpr (D == DType::kQ3_K) return ((b[32 + 32 * half + e] >> (2 * quarter)) & 3) | ((b[e] >> j) & 1) << 2;
  if constexpr (D == DType::kQ4_K) return (b[16 + 32 * (j / 2) + e] >> (4 * (j % 2))) & 15;
  if constexpr (D == DType::kQ5_K)
    return ((b[48 + 32 * (j / 2) + e] >> (4 * (j % 2))) & 15) | ((b[16 + e] >> j) & 1) << 4;
  if constexpr (D == DType::kQ6_K)
    return ((b[64 * half + 32 * (quarter & 1) + e] >> (quarter < 2 ? 0 : 4)) & 15) |
           ((b[128 + 32 * half + e] >> (2 * quarter)) & 3) << 4;
  return 0;
}

__device__ void copy_half(uint8_t* to, const uint8_t* from) {
  to[0] = from[0];
  to[1] = from[1];
}

/// Scale and minimum of 32-block j of Q4_K and Q5_K (unpack_scale_min of kernels/formats.h, which is host code).
__device__ void scale_min(const uint8_t* packed, int j, uint8_t* scale, uint8_t* min) {
  if (j < 4) {
    *scale = packed[j] & 63;
    *min = packed[j + 4] & 63;
  } else {
    *scale = static_cast<uint8_t>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4));
    *min = static_cast<uint8_t>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4));
  }
}

/// The scales of block `block` (0..7) of row `row` of a stage; b and j as above.
template <DType D>
__device__ void pack_scales(const uint8_t* b, int j, uint8_t* scales, int row, int block) {
  constexpr PackedFormat F = packed_format(D);
  if constexpr (F.scales == ScaleLayout::kHalf) {
    copy_half(scales + 16 * row + 2 * block, b);
    if constexpr (F.has_min) copy_half(scales + 256 + 16 * row + 2 * block, b + 2);
  } else if constexpr (F.scales == ScaleLayout::kExponent) {
    scales[8 * row + block] = b[0];
  } else if constexpr (F.scales == ScaleLayout::kSub) {
    const int low = (b[4 + j / 2] >> (4 * (j % 2))) & 15;
    const int high = ((b[2] | (b[3] << 8)) >> (2 * j)) & 3;
    scales[8 * row + block] = static_cast<uint8_t>((low | (high << 4)) - 32);
    copy_half(scales + 128 + 2 * row, b);
  } else if constexpr (F.scales == ScaleLayout::kSubMin) {
    scale_min(b + 4, j, scales + 16 * row + block, scales + 16 * row + 8 + block);
    copy_half(scales + 256 + 4 * row, b);
    copy_half(scales + 258 + 4 * row, b + 2);
  } else if constexpr (D == DType::kQ6_K) {
    copy_half(scales + 16 * row + 2 * block, b + 192 + 2 * j);
    copy_half(scales + 256 + 2 * row, b + 208);
  } else if constexpr (D == DType::kQ3_K) {
    for (int i = 2 * j; i < 2 * j + 2; ++i) {
      const int low = (b[96 + i % 8] >> (i < 8 ? 0 : 4)) & 15;
      const int high = (b[104 + i % 4] >> (2 * (i / 4))) & 3;
      scales[16 * row + 2 * block + i - 2 * j] = static_cast<uint8_t>((low | (high << 4)) - 32);
    }
    copy_half(scales + 256 + 2 * row, b + 108);
  } else {
    copy_half(scales + 16 * row + 2 * block, b + 2 * j);
    copy_half(scales + 256 + 4 * row, b + 80);
    copy_half(scales + 258 + 4 * row, b + 82);
  }
}

struct RepackParams {
  const uint8_t* raw;    // [rows, raw_row_bytes]
  int64_t raw_row_bytes;
  int64_t rows;
  int64_t cols;
  int32_t block_elements, block_bytes;
  uint8_t* tiles;        // [ceil(rows / 16)] tiles
  int64_t tile_bytes;
};

template <DType D>
__global__ void __launch_bounds__(128) repack_kernel(RepackParams p) {
  constexpr PackedFormat F = packed_format(D);
  const int64_t tile = int64_t{blockIdx.y} + int64_t{blockIdx.z} * 65535;
  if (tile * kTileRows >= p.rows) return;
  const int64_t first_block = int64_t{blockIdx.x} * kStageBlocks;
  const int blocks = static_cast<int>(min(int64_t{kStageBlocks}, p.cols / kBlock - first_block));  // the rest is zero
  uint8_t* stage = p.tiles + tile * p.tile_bytes + int64_t{blockIdx.x} * F.stage_bytes();
  const int per_stored = p.block_elements / kBlock;
  const auto stored = [&](int row, int64_t block) {
    return p.raw + (tile * kTileRows + row) * p.raw_row_bytes + block / per_stored * p.block_bytes;
  };

  const int pair = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  uint32_t low[4] = {}, two[2] = {}, one = 0, bytes[8] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int reg = 0; reg < 4; ++reg) {
      const int row = lane / 4 + 8 * (reg & 1);
      const int block = 2 * pair + h;
      if (block >= blocks || tile * kTileRows + row >= p.rows) continue;
      const uint8_t* b = stored(row, first_block + block);
      const int j = static_cast<int>((first_block + block) % per_stored);
#pragma unroll
      for (int byte = 0; byte < 4; ++byte) {
        uint32_t code = static_cast<uint32_t>(raw_code<D>(b, j, code_element(F.per16, lane, reg, byte)));
        if constexpr (F.offset) code ^= 1u << (F.bits - 1);
        const int nibble = F.table ? 4 * (reg / 2) + byte : 2 * byte + reg / 2;
        if constexpr (F.low4) low[2 * h + (reg & 1)] |= (code & 15u) << (4 * nibble);
        if constexpr (F.bits2) two[h] |= ((code >> (F.low4 ? 4 : 0)) & 3u) << (8 * byte + 2 * reg);
        if constexpr (F.bits1) one |= ((code >> (F.bits - 1)) & 1u) << (8 * byte + 4 * h + reg);
        if constexpr (F.int8) bytes[4 * h + reg] |= (code & 255u) << (8 * byte);
      }
    }
  uint8_t* plane = stage;
  if constexpr (F.low4) {
    reinterpret_cast<uint4*>(plane + pair * 512)[lane] = make_uint4(low[0], low[1], low[2], low[3]);
    plane += kStagePairs * 512;
  }
  if constexpr (F.bits2) {
    reinterpret_cast<uint2*>(plane + pair * 256)[lane] = make_uint2(two[0], two[1]);
    plane += kStagePairs * 256;
  }
  if constexpr (F.bits1) reinterpret_cast<uint32_t*>(plane + pair * 128)[lane] = one;
  if constexpr (F.int8) {
    reinterpret_cast<uint4*>(plane + pair * 1024)[lane] = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
    reinterpret_cast<uint4*>(plane + pair * 1024 + 512)[lane] = make_uint4(bytes[4], bytes[5], bytes[6], bytes[7]);
  }
  uint8_t* scales = stage + kStagePairs * F.pair_bytes();
  const int row = threadIdx.x / 8;
  const int block = threadIdx.x % 8;
  if (block < blocks && tile * kTileRows + row < p.rows)
    pack_scales<D>(stored(row, first_block + block), static_cast<int>((first_block + block) % per_stored), scales, row, block);
}

}  // namespace

void repack(Context& context, DType dtype, const std::byte* raw, int64_t rows, int64_t cols, std::byte* tiles) {
  RepackParams p{};
  p.raw = reinterpret_cast<const uint8_t*>(raw);
  p.raw_row_bytes = row_bytes(dtype, cols);
  p.rows = rows;
  p.cols = cols;
  p.block_elements = dtype_info(dtype).block_elements;
  p.block_bytes = dtype_info(dtype).block_bytes;
  p.tiles = reinterpret_cast<uint8_t*>(tiles);
  p.tile_bytes = packed_format(dtype).tile_bytes(cols);
  const int64_t tile_count = (rows + kTileRows - 1) / kTileRows;
  const dim3 grid(static_cast<unsigned>((cols + kStageElements - 1) / kStageElements),
                  static_cast<unsigned>(std::min<int64_t>(tile_count, 65535)),
                  static_cast<unsigned>((tile_count + 65534) / 65535));
  const bool known = with_block_format(dtype, [&]<DType D>() { repack_kernel<D><<<grid, 128, 0, context.stream()>>>(p); });
  CHECK(known, "only block formats are repacked");
  context.check_launch("repack");
}

}  // namespace slipstream::cuda
