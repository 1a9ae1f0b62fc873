// Stored rows -> tiles of 8 rows, and single rows out of tiles. Owns the rearrangement only: codes and scales keep
// their stored values, nothing is requantised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_layout.h"
#include "kernels/tensor.h"
#include "kernels/weight.h"

namespace slipstream {

/// Packs 8 rows of `cols` block-quantised elements; null rows are padding and become zeros.
/// tile: packed_layout(dtype).tile_bytes(cols / 32) bytes.
void pack_tile(DType dtype, const std::byte* const rows[kTileRows], int64_t cols, uint8_t* tile);

/// F32, F16, BF16, F8_E4M3: tile[k * 8 + r] = row r, element k.
void pack_float_tile(DType dtype, const std::byte* const rows[kTileRows], int64_t cols, uint8_t* tile);

/// The scales of rows first_row .. first_row + 7 of an F8_E4M3 part: [scale blocks along K, 8] floats; rows past the end get 0.
void pack_f8_scales(const WeightPart& part, int64_t first_row, uint8_t* scales);

/// One block of a tile as plain numbers: the readable form of the layout, for embedding look-ups, the scalar kernels
/// and tests.
struct PlainBlock {
  uint8_t code[8][kTileRows][4];  // [group q][row][i]; int8 values where the class is signed
  float scale[2][kTileRows];      // per group of the class
  float min[2][kTileRows];        // 0 without minima
};
void unpack_plain(const PackedLayout& layout, const uint8_t* tile, int64_t block, PlainBlock* out);

/// Row `lane` of a tile as floats: the values of dequantize_row. out [cols]
void unpack_row(DType dtype, const uint8_t* tile, int lane, int64_t cols, float* out);

}  // namespace slipstream
