#include "kernels/cpu/pack.h"

#include <cstring>

#include "kernels/check.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

/// One row's 32 elements as the layout wants them.
struct RowBlock {
  const uint8_t* nibbles = nullptr;  // 16 bytes, split, when the stored order already fits low4
  const uint8_t* bytes = nullptr;    // 32 int8, when stored so
  uint32_t high = 0;                 // fifth bits of `nibbles`
  uint8_t code[32];                  // otherwise
};

uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

/// Gathers bits 0, 4, 8, ... 28 into one byte.
uint32_t every_fourth_bit(uint32_t x) {
  x &= 0x11111111u;
  x = (x | (x >> 3)) & 0x03030303u;
  x = (x | (x >> 6)) & 0x000f000fu;
  return (x | (x >> 12)) & 0xffu;
}

/// Codes of sub-block j (32 elements) of a 256-element block.
void super_block_codes(DType dtype, const uint8_t* b, int j, RowBlock* out) {
  const int half = j / 4;   // of 128 elements
  const int quarter = j % 4;
  for (int l = 0; l < 32; ++l) {
    int code = 0;
    switch (dtype) {
      case DType::kQ2_K: code = (b[16 + 32 * half + l] >> (2 * quarter)) & 3; break;
      case DType::kQ3_K:
        code = ((b[32 + 32 * half + l] >> (2 * quarter)) & 3) | (((b[l] >> j) & 1) << 2);
        break;
      case DType::kQ4_K: code = (b[16 + 32 * (j / 2) + l] >> (4 * (j % 2))) & 15; break;
      case DType::kQ5_K:
        code = ((b[48 + 32 * (j / 2) + l] >> (4 * (j % 2))) & 15) | (((b[16 + l] >> j) & 1) << 4);
        break;
      case DType::kQ6_K:
        code = ((b[64 * half + 32 * (quarter & 1) + l] >> (quarter < 2 ? 0 : 4)) & 15) |
               (((b[128 + 32 * half + l] >> (2 * quarter)) & 3) << 4);
        break;
      default: break;
    }
    out->code[l] = static_cast<uint8_t>(code);
  }
}

void row_block(DType dtype, const uint8_t* b, int j, RowBlock* out) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kIQ4_NL: out->nibbles = b + 2; return;
    case DType::kQ4_1: out->nibbles = b + 4; return;
    case DType::kMXFP4: out->nibbles = b + 1; return;
    case DType::kIQ4_XS: out->nibbles = b + 8 + 16 * j; return;
    case DType::kQ5_0: out->nibbles = b + 6, out->high = load_u32(b + 2); return;
    case DType::kQ5_1: out->nibbles = b + 8, out->high = load_u32(b + 4); return;
    case DType::kQ8_0: out->bytes = b + 2; return;
    default: super_block_codes(dtype, b, j, out); return;
  }
}

/// Writes row r's part of the code planes.
void write_codes(CodePlanes planes, const RowBlock& row, int r, uint8_t* block) {
  if (planes == CodePlanes::kInt8) {
    for (int q = 0; q < 8; ++q) std::memcpy(block + 32 * q + 4 * r, row.bytes + 4 * q, 4);
    return;
  }
  if (row.nibbles != nullptr) {
    for (int p = 0; p < 4; ++p) std::memcpy(block + 32 * p + 4 * r, row.nibbles + 4 * p, 4);
    if (planes == CodePlanes::kLow4Bits1)
      for (int i = 0; i < 4; ++i) block[128 + 4 * r + i] = static_cast<uint8_t>(every_fourth_bit(row.high >> i));
    return;
  }
  const uint8_t* c = row.code;  // element 4q + i is c[4q + i]
  uint8_t* extra = block;
  if (planes == CodePlanes::kLow4 || planes == CodePlanes::kLow4Bits1 || planes == CodePlanes::kLow4Bits2) {
    for (int p = 0; p < 4; ++p)
      for (int i = 0; i < 4; ++i)
        block[32 * p + 4 * r + i] =
            static_cast<uint8_t>((c[4 * p + i] & 15) | ((c[4 * (p + 4) + i] & 15) << 4));
    extra = block + 128;
  }
  const int shift = planes == CodePlanes::kLow4Bits2 || planes == CodePlanes::kLow4Bits1 ? 4 : 0;
  if (planes == CodePlanes::kLow4Bits2 || planes == CodePlanes::kBits2 || planes == CodePlanes::kBits2Bits1) {
    for (int p = 0; p < 2; ++p)
      for (int i = 0; i < 4; ++i) {
        int byte = 0;
        for (int f = 0; f < 4; ++f) byte |= ((c[4 * (4 * p + f) + i] >> shift) & 3) << (2 * f);
        extra[32 * p + 4 * r + i] = static_cast<uint8_t>(byte);
      }
    extra += 64;
  }
  if (planes == CodePlanes::kLow4Bits1 || planes == CodePlanes::kBits2Bits1) {
    const int bit = planes == CodePlanes::kLow4Bits1 ? 4 : 2;
    for (int i = 0; i < 4; ++i) {
      int byte = 0;
      for (int q = 0; q < 8; ++q) byte |= ((c[4 * q + i] >> bit) & 1) << q;
      extra[4 * r + i] = static_cast<uint8_t>(byte);
    }
  }
}

/// Writes row r's scales of block j of a stored block (or of its super-block).
void write_scales(DType dtype, const uint8_t* b, int j, int r, uint8_t* scales) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1: std::memcpy(scales + 16 + 2 * r, b + 2, 2); [[fallthrough]];
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIQ4_NL: std::memcpy(scales + 2 * r, b, 2); return;
    case DType::kMXFP4: scales[r] = b[0]; return;
    case DType::kQ2_K:
      scales[r] = b[2 * j];
      scales[8 + r] = b[2 * j + 1];
      return;
    case DType::kQ3_K:
      for (int g = 0; g < 2; ++g) scales[8 * g + r] = static_cast<uint8_t>(unpack_q3k_scale(b + 96, 2 * j + g));
      return;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const ScaleMin s = unpack_scale_min(b + 4, j);
      scales[r] = s.scale;
      scales[8 + r] = s.min;
      return;
    }
    case DType::kQ6_K:
      scales[r] = b[192 + 2 * j];
      scales[8 + r] = b[192 + 2 * j + 1];
      return;
    case DType::kIQ4_XS: {
      const int low = (b[4 + j / 2] >> (4 * (j % 2))) & 15;
      const int high = (load_u16(b + 2) >> (2 * j)) & 3;
      scales[r] = static_cast<uint8_t>((low | (high << 4)) - 32);
      return;
    }
    default: return;
  }
}

/// d (and dmin) of a super-block into row r of the header.
void write_header(DType dtype, const uint8_t* b, int r, uint8_t* header) {
  int d = 0;
  int dmin = -1;
  switch (dtype) {
    case DType::kQ2_K: d = 80, dmin = 82; break;
    case DType::kQ3_K: d = 108; break;
    case DType::kQ4_K:
    case DType::kQ5_K: dmin = 2; break;
    case DType::kQ6_K: d = 208; break;
    default: break;
  }
  std::memcpy(header + 2 * r, b + d, 2);
  if (dmin >= 0) std::memcpy(header + 16 + 2 * r, b + dmin, 2);
}

/// 2^(e - 128), also where that is subnormal.
float exponent_scale(uint8_t e) {
  return e < 2 ? std::bit_cast<float>(0x00200000u << e) : std::bit_cast<float>(static_cast<uint32_t>(e - 1) << 23);
}

int element_code(const PackedLayout& layout, const uint8_t* block, int q, int byte) {
  const uint8_t* extra = block + 128;
  const auto low4 = [&] { return (block[32 * (q % 4) + byte] >> (q < 4 ? 0 : 4)) & 15; };
  const auto bits2 = [&](const uint8_t* plane) { return (plane[32 * (q / 4) + byte] >> (2 * (q % 4))) & 3; };
  switch (layout.planes) {
    case CodePlanes::kLow4: return layout.table != nullptr ? layout.table[low4()] : low4();
    case CodePlanes::kLow4Bits1: return low4() | (((extra[byte] >> q) & 1) << 4);
    case CodePlanes::kLow4Bits2: return low4() | (bits2(extra) << 4);
    case CodePlanes::kBits2: return bits2(block);
    case CodePlanes::kBits2Bits1: return bits2(block) | (((block[64 + byte] >> q) & 1) << 2);
    case CodePlanes::kInt8: return block[32 * q + byte];
  }
  return 0;
}

void plain_scales(const PackedLayout& layout, const uint8_t* header, const uint8_t* scales, PlainBlock* out) {
  const auto half = [](const uint8_t* p, int r) { return f16_to_f32(load_u16(p + 2 * r)); };
  for (int r = 0; r < kTileRows; ++r) {
    out->min[0][r] = out->min[1][r] = 0.0f;
    switch (layout.scales) {
      case ScaleLayout::kHalf:
        out->scale[0][r] = half(scales, r);
        if (layout.kind.has_min) out->min[0][r] = half(scales + 16, r);
        break;
      case ScaleLayout::kExponent: out->scale[0][r] = exponent_scale(scales[r]); break;
      case ScaleLayout::kSub:
        for (int g = 0; g < layout.kind.groups; ++g)
          out->scale[g][r] = half(header, r) * static_cast<float>(static_cast<int8_t>(scales[8 * g + r]));
        if (layout.kind.has_min) out->min[0][r] = 0.0f - half(header + 16, r) * static_cast<float>(scales[8 + r]);
        break;
      case ScaleLayout::kSubNibbles:
        for (int g = 0; g < 2; ++g) {
          out->scale[g][r] = half(header, r) * static_cast<float>(scales[8 * g + r] & 15);
          out->min[g][r] = 0.0f - half(header + 16, r) * static_cast<float>(scales[8 * g + r] >> 4);
        }
        break;
    }
  }
}

}  // namespace

void pack_tile(DType dtype, const std::byte* const rows[kTileRows], int64_t cols, uint8_t* tile) {
  const PackedLayout& layout = packed_layout(dtype);
  const DTypeInfo& info = dtype_info(dtype);
  const int64_t blocks = cols / kBlock;
  const int per_stored = info.block_elements / kBlock;
  for (int r = 0; r < kTileRows; ++r)
    if (rows[r] == nullptr) {
      std::memset(tile, 0, static_cast<size_t>(layout.tile_bytes(blocks)));
      break;
    }
  for (int64_t block = 0; block < blocks; ++block) {
    uint8_t* target = tile + layout.block_offset(block);
    const int j = static_cast<int>(block % per_stored);
    for (int r = 0; r < kTileRows; ++r) {
      if (rows[r] == nullptr) continue;
      const auto* stored = reinterpret_cast<const uint8_t*>(rows[r]) + block / per_stored * info.block_bytes;
      if (layout.header_bytes != 0 && j == 0) write_header(dtype, stored, r, tile + layout.header_offset(block));
      RowBlock row;
      row_block(dtype, stored, j, &row);
      write_codes(layout.planes, row, r, target);
      write_scales(dtype, stored, j, r, target + layout.code_bytes);
    }
  }
}

void pack_float_tile(DType dtype, const std::byte* const rows[kTileRows], int64_t cols, uint8_t* tile) {
  const size_t bytes = static_cast<size_t>(dtype_info(dtype).block_bytes);
  for (int r = 0; r < kTileRows; ++r) {
    uint8_t* target = tile + static_cast<size_t>(r) * bytes;
    if (bytes == 1)
      for (int64_t k = 0; k < cols; ++k) target[k * kTileRows] = rows[r] == nullptr ? 0 : static_cast<uint8_t>(rows[r][k]);
    else if (bytes == 4)
      for (int64_t k = 0; k < cols; ++k, target += 32)
        rows[r] == nullptr ? std::memset(target, 0, 4) : std::memcpy(target, rows[r] + 4 * k, 4);
    else
      for (int64_t k = 0; k < cols; ++k, target += 16)
        rows[r] == nullptr ? std::memset(target, 0, 2) : std::memcpy(target, rows[r] + 2 * k, 2);
  }
}

void pack_f8_scales(const WeightPart& part, int64_t first_row, uint8_t* scales) {
  const WeightScales& s = part.scales;
  for (int64_t k = 0; k < part.cols; k += s.block_cols - (s.first_col + k) % s.block_cols, scales += kTileRows * sizeof(float))
    for (int64_t r = 0; r < kTileRows; ++r) {
      const float scale = first_row + r < part.rows ? s.at(first_row + r, k) : 0.0f;
      std::memcpy(scales + static_cast<size_t>(r) * sizeof scale, &scale, sizeof scale);
    }
}

void unpack_plain(const PackedLayout& layout, const uint8_t* tile, int64_t block, PlainBlock* out) {
  const uint8_t* b = tile + layout.block_offset(block);
  for (int q = 0; q < 8; ++q)
    for (int byte = 0; byte < 32; ++byte)
      out->code[q][byte / 4][byte % 4] = static_cast<uint8_t>(element_code(layout, b, q, byte));
  plain_scales(layout, tile + layout.header_offset(block), b + layout.code_bytes, out);
}

void unpack_row(DType dtype, const uint8_t* tile, int lane, int64_t cols, float* out) {
  if (!is_block_quantised(dtype)) {
    for (int64_t k = 0; k < cols; ++k) {
      if (dtype == DType::kF32) {
        std::memcpy(out + k, tile + (k * kTileRows + lane) * 4, 4);
        continue;
      }
      const uint16_t bits = load_u16(tile + (k * kTileRows + lane) * 2);
      out[k] = dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
    return;
  }
  const PackedLayout& layout = packed_layout(dtype);
  const float zero = layout.kind.zero_shift >= 0 ? static_cast<float>(1 << layout.kind.zero_shift) : 0.0f;
  for (int64_t block = 0; block < cols / kBlock; ++block) {
    const uint8_t* b = tile + layout.block_offset(block);
    PlainBlock plain;
    plain_scales(layout, tile + layout.header_offset(block), b + layout.code_bytes, &plain);
    for (int q = 0; q < 8; ++q)
      for (int i = 0; i < 4; ++i) {
        const int code = element_code(layout, b, q, 4 * lane + i);
        const int value = layout.kind.is_signed ? static_cast<int8_t>(code) : code;
        const int g = layout.kind.groups == 2 ? q / 4 : 0;
        const float product = plain.scale[g][lane] * (static_cast<float>(value) - zero);
        out[block * kBlock + 4 * q + i] = layout.kind.has_min ? product + plain.min[g][lane] : product;
      }
  }
}

}  // namespace slipstream
