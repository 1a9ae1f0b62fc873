// How the CPU backend keeps block-quantised matrices: tiles of 8 output rows, so that SIMD lanes are output rows.
// Owns the byte layout; kernels of every instruction set read it, pack.cpp writes it.
//
// A tile is cols / 32 blocks in ascending order; formats with super-blocks of 256 put a header before every 8 blocks:
//   header = d[8] (f16), then dmin[8] (f16) where the format has minima
//   block  = code planes, then the block's scales
// Code planes hold the codes of 8 rows x 32 elements. "Group q" (0..7) is the 8 x 4 codes of elements 4q..4q+3; byte
// r * 4 + i of a group is row r, element 4q + i:
//   low4   128 bytes: 32 bytes for each p = 0..3, group p in the low nibbles, group p + 4 in the high nibbles
//   bits2   64 bytes: 32 bytes for each p = 0..1, group 4p + f in bits 2f..2f+1
//   bits1   32 bytes: group q in bit q
//   int8   256 bytes: group q at 32 q
// Scales: kHalf d[8] (f16) and, with minima, m[8] (f16); kExponent e[8] (u8); kSub8 and kSub6: per group of elements
// scale[8] (i8 or u8), and min[8] (u8) for Q4_K and Q5_K; kSubNibbles: per 16 elements 8 bytes of scale:4, min:4.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace slipstream {

inline constexpr int kTileRows = 8;
inline constexpr int kBlock = 32;  // elements of a block; activation scales have the same step

enum class CodePlanes : uint8_t { kLow4, kLow4Bits1, kLow4Bits2, kBits2, kBits2Bits1, kInt8 };
enum class ScaleLayout : uint8_t { kHalf, kExponent, kSub, kSubNibbles };

/// What a product kernel must know beyond the codes (quant_kernels.h).
struct QuantClass {
  bool is_signed = false;   // codes are int8 values; otherwise unsigned with an offset
  int8_t zero_shift = -1;   // value = code - 2^zero_shift; -1: no offset
  int8_t groups = 1;        // scales per 32 elements (1 or 2)
  bool has_min = false;     // value = scale * code + min (min carries its sign)
  int8_t code_bits = 4;     // of an unsigned code
};

struct PackedLayout {
  CodePlanes planes;
  ScaleLayout scales;
  QuantClass kind;
  const int8_t* table;      // 16 values when 4-bit codes are indices (IQ4, MXFP4)
  int32_t code_bytes;       // of a block
  int32_t block_bytes;
  int32_t header_bytes;     // before every 8 blocks; 0 without super-blocks

  /// Offset of block b in its tile.
  int64_t block_offset(int64_t b) const {
    if (header_bytes == 0) return b * block_bytes;
    return (b / 8) * (header_bytes + 8 * int64_t{block_bytes}) + header_bytes + (b % 8) * block_bytes;
  }
  int64_t header_offset(int64_t b) const { return (b / 8) * (header_bytes + 8 * int64_t{block_bytes}); }
  int64_t tile_bytes(int64_t blocks) const {
    return header_bytes == 0 ? blocks * block_bytes : blocks / 8 * (header_bytes + 8 * int64_t{block_bytes});
  }
};

/// Only for block-quantised formats.
const PackedLayout& packed_layout(DType dtype);
inline bool is_block_quantised(DType dtype) { return dtype_info(dtype).block_elements > 1; }

}  // namespace slipstream
