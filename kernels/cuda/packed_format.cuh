// How the CUDA backend keeps block-quantised matrices: tiles of 16 output rows, whose bytes lie as the lanes of
// mma.m16n8k32 want them. Owns the byte layout: repacking writes it, kernels read it. Knows no launch and no stream.
//
// A tile is a run of stages of 256 elements of K (8 blocks of 32), ascending; K is padded to whole stages with zeros. A
// stage is: code planes of its 4 block pairs (64 elements), then the scales.
//   low4   512 bytes a pair: lane l has 16 bytes: block 0 of rows g, g + 8, then block 1 of rows g, g + 8 (g = l / 4)
//   bits2  256 bytes a pair: lane l has 8 bytes: block 0, block 1; register i of the operand in bits 2i of each byte
//   bits1  128 bytes a pair: lane l has 4 bytes; register i of block h in bit 4h + i of each byte
//   int8  1024 bytes a pair: block 0, block 1; lane l has 16 bytes: registers 0..3
// Register i of lane l is row g + 8 (i & 1) and, of the block's elements, 8 t + 4 (i / 2) + byte (t = l % 4), or, for
// formats with a scale per 16 elements, 16 (i / 2) + 4 t + byte: the two halves are then two k16 products.
// A word of low4 has register i in the low and i + 2 in the high nibbles; for formats whose codes are table indices,
// nibble 4 (i / 2) + byte, the order that byte permutation reads.
// Formats with an offset (Q4_0: q - 8) keep the code with its top bit flipped: shifted to the top of a byte it is the
// signed value times 2^(8 - bits), which costs no subtraction; the scale takes the factor back, exactly.
// Scales of a stage, row r of 16:
//   kHalf           d[8] f16 at 16 r, then, with minima, m[8] f16 at 256 + 16 r
//   kExponent       e[8] u8 at 8 r
//   kSub            scale[8] i8 at 8 r; d f16 at 128 + 2 r
//   kSubMin         scale[8] u8, min[8] u8 at 16 r; d, dmin f16 at 256 + 4 r
//   kSub16          scale[16] i8 at 16 r; d f16 at 256 + 2 r
//   kSubNibbles16   (scale:4, min:4)[16] at 16 r; d, dmin f16 at 256 + 4 r
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/tensor.h"

namespace slipstream::cuda {

inline constexpr int kTileRows = 16;
inline constexpr int kBlock = 32;        // elements that share an activation scale
inline constexpr int kStageBlocks = 8;
inline constexpr int kStagePairs = kStageBlocks / 2;
inline constexpr int kStageElements = kBlock * kStageBlocks;

enum class ScaleLayout : uint8_t { kHalf, kExponent, kSub, kSubMin, kSub16, kSubNibbles16 };

struct PackedFormat {
  uint8_t bits = 0;         // of a code; 0: not a block format
  bool low4 = false, bits2 = false, bits1 = false, int8 = false;  // planes, in the order of their bits
  bool offset = false;      // value = code - 2^(bits - 1), stored with the top bit flipped
  bool table = false;       // codes are indices of kIQ4Values (kE2M1Doubled for MXFP4)
  bool has_min = false;
  bool per16 = false;       // a scale per 16 elements
  ScaleLayout scales = ScaleLayout::kHalf;

  __host__ __device__ constexpr int pair_bytes() const {
    return (low4 ? 512 : 0) + (bits2 ? 256 : 0) + (bits1 ? 128 : 0) + (int8 ? 1024 : 0);
  }
  __host__ __device__ constexpr int scale_bytes() const {
    switch (scales) {
      case ScaleLayout::kHalf: return has_min ? 512 : 256;
      case ScaleLayout::kExponent: return 128;
      case ScaleLayout::kSub: return 128 + 32;
      case ScaleLayout::kSubMin: return 256 + 64;
      case ScaleLayout::kSub16: return 256 + 32;
      case ScaleLayout::kSubNibbles16: return 256 + 64;
    }
    return 0;
  }
  __host__ __device__ constexpr int stage_bytes() const { return kStagePairs * pair_bytes() + scale_bytes(); }
  __host__ __device__ constexpr int64_t tile_bytes(int64_t cols) const {
    return (cols + kStageElements - 1) / kStageElements * stage_bytes();
  }
  /// Left shift that puts a code at the top of its byte (offset formats), otherwise 0.
  __host__ __device__ constexpr int top_shift() const { return offset ? 8 - bits : 0; }
};

__host__ __device__ constexpr PackedFormat packed_format(DType dtype) {
  using S = ScaleLayout;
  //                        bits  low4   bits2  bits1  int8   offset table  min    per16  scales
  switch (dtype) {
    case DType::kQ4_0:   return {4, true, false, false, false, true, false, false, false, S::kHalf};
    case DType::kQ4_1:   return {4, true, false, false, false, false, false, true, false, S::kHalf};
    case DType::kQ5_0:   return {5, true, false, true, false, true, false, false, false, S::kHalf};
    case DType::kQ5_1:   return {5, true, false, true, false, false, false, true, false, S::kHalf};
    case DType::kQ8_0:   return {8, false, false, false, true, false, false, false, false, S::kHalf};
    case DType::kQ2_K:   return {2, false, true, false, false, false, false, true, true, S::kSubNibbles16};
    case DType::kQ3_K:   return {3, false, true, true, false, true, false, false, true, S::kSub16};
    case DType::kQ4_K:   return {4, true, false, false, false, false, false, true, false, S::kSubMin};
    case DType::kQ5_K:   return {5, true, false, true, false, false, false, true, false, S::kSubMin};
    case DType::kQ6_K:   return {6, true, true, false, false, true, false, false, true, S::kSub16};
    case DType::kIQ4_NL: return {4, true, false, false, false, false, true, false, false, S::kHalf};
    case DType::kIQ4_XS: return {4, true, false, false, false, false, true, false, false, S::kSub};
    case DType::kMXFP4:  return {4, true, false, false, false, false, true, false, false, S::kExponent};
    default: return {};
  }
}

/// The 16 levels of a table format, four to a word: kIQ4Values and kE2M1Doubled of kernels/formats.h.
template <DType D>
struct CodeTable;
template <>
struct CodeTable<DType::kIQ4_NL> {
  __device__ static constexpr uint32_t word(int i) {
    return i == 0 ? 0xbfad9881u : i == 1 ? 0xf6eaddcfu : i == 2 ? 0x26190d01u : 0x71594535u;
  }
};
template <>
struct CodeTable<DType::kIQ4_XS> : CodeTable<DType::kIQ4_NL> {};
template <>
struct CodeTable<DType::kMXFP4> {
  __device__ static constexpr uint32_t word(int i) {
    return i == 0 ? 0x03020100u : i == 1 ? 0x0c080604u : i == 2 ? 0xfdfeff00u : 0xf4f8fafcu;
  }
};

/// Where element e of row r of a block stands: lane and register of the matrix operand, byte of the register.
struct CodePlace {
  int lane, reg, byte;
};
__host__ __device__ constexpr CodePlace code_place(bool per16, int row, int e) {
  const int t = per16 ? e % 16 / 4 : e / 8;
  const int half = per16 ? e / 16 : e % 8 / 4;
  return {row % 8 * 4 + t, row / 8 + 2 * half, e % 4};
}
/// The inverse of code_place.
__host__ __device__ constexpr int code_element(bool per16, int lane, int reg, int byte) {
  const int t = lane % 4;
  return per16 ? 16 * (reg / 2) + 4 * t + byte : 8 * t + 4 * (reg / 2) + byte;
}

__host__ __device__ inline float half_bits_to_float(uint16_t bits) {
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
}

/// 2^(e - 128), also where that is subnormal.
__device__ inline float exponent_scale(uint32_t e) {
  return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/// The value of element e (0..31) of block `block` of row `row` of a stage: the readable inverse of the layout, with the
/// roundings of dequantize_row.
template <DType D>
__device__ inline float packed_value(const uint8_t* stage, int row, int block, int e) {
  constexpr PackedFormat F = packed_format(D);
  const CodePlace at = code_place(F.per16, row, e);
  const int pair = block / 2;
  const int h = block % 2;
  const uint8_t* plane = stage;
  int code = 0;
  if constexpr (F.low4) {
    const uint8_t* word = plane + pair * 512 + at.lane * 16 + h * 8 + (at.reg & 1) * 4;
    const int nibble = F.table ? 4 * (at.reg / 2) + at.byte : 2 * at.byte + at.reg / 2;
    code = (word[nibble / 2] >> (4 * (nibble % 2))) & 15;
    plane += kStagePairs * 512;
  }
  if constexpr (F.bits2) {
    code |= ((plane[pair * 256 + at.lane * 8 + h * 4 + at.byte] >> (2 * at.reg)) & 3) << (F.low4 ? 4 : 0);
    plane += kStagePairs * 256;
  }
  if constexpr (F.bits1) {
    code |= ((plane[pair * 128 + at.lane * 4 + at.byte] >> (4 * h + at.reg)) & 1) << (F.bits - 1);
    plane += kStagePairs * 128;
  }
  if constexpr (F.int8) {
    code = static_cast<int8_t>(plane[pair * 1024 + h * 512 + at.lane * 16 + at.reg * 4 + at.byte]);
    plane += kStagePairs * 1024;
  }
  if constexpr (F.offset) code = (code ^ (1 << (F.bits - 1))) - (1 << (F.bits - 1));  // already flipped: sign-extend
  if constexpr (F.table) code = static_cast<int8_t>((CodeTable<D>::word(code / 4) >> (8 * (code % 4))) & 255);
  const float value = static_cast<float>(code);

  const uint8_t* scales = plane;
  const auto half_at = [&](int offset) {
    return half_bits_to_float(static_cast<uint16_t>(scales[offset] | (scales[offset + 1] << 8)));
  };
  if constexpr (F.scales == ScaleLayout::kHalf) {
    const float product = __fmul_rn(half_at(16 * row + 2 * block), value);
    return F.has_min ? __fadd_rn(product, half_at(256 + 16 * row + 2 * block)) : product;
  } else if constexpr (F.scales == ScaleLayout::kExponent) {
    return exponent_scale(scales[8 * row + block]) * value;
  } else if constexpr (F.scales == ScaleLayout::kSub) {
    return half_at(128 + 2 * row) * static_cast<float>(static_cast<int8_t>(scales[8 * row + block])) * value;
  } else if constexpr (F.scales == ScaleLayout::kSubMin) {
    const float scale = half_at(256 + 4 * row) * static_cast<float>(scales[16 * row + block]);
    const float min = half_at(258 + 4 * row) * static_cast<float>(scales[16 * row + 8 + block]);
    return __fsub_rn(__fmul_rn(scale, value), min);
  } else if constexpr (F.scales == ScaleLayout::kSub16) {
    const auto scale = static_cast<int8_t>(scales[16 * row + 2 * block + e / 16]);
    return half_at(256 + 2 * row) * static_cast<float>(scale) * value;
  } else {
    const uint8_t packed = scales[16 * row + 2 * block + e / 16];
    const float scale = half_at(256 + 4 * row) * static_cast<float>(packed & 15);
    const float min = half_at(258 + 4 * row) * static_cast<float>(packed >> 4);
    return __fsub_rn(__fmul_rn(scale, value), min);
  }
}

/// Calls f<D>() for a block format. Returns false for any other.
template <class F>
bool with_block_format(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kQ4_0: f.template operator()<DType::kQ4_0>(); return true;
    case DType::kQ4_1: f.template operator()<DType::kQ4_1>(); return true;
    case DType::kQ5_0: f.template operator()<DType::kQ5_0>(); return true;
    case DType::kQ5_1: f.template operator()<DType::kQ5_1>(); return true;
    case DType::kQ8_0: f.template operator()<DType::kQ8_0>(); return true;
    case DType::kQ2_K: f.template operator()<DType::kQ2_K>(); return true;
    case DType::kQ3_K: f.template operator()<DType::kQ3_K>(); return true;
    case DType::kQ4_K: f.template operator()<DType::kQ4_K>(); return true;
    case DType::kQ5_K: f.template operator()<DType::kQ5_K>(); return true;
    case DType::kQ6_K: f.template operator()<DType::kQ6_K>(); return true;
    case DType::kIQ4_NL: f.template operator()<DType::kIQ4_NL>(); return true;
    case DType::kIQ4_XS: f.template operator()<DType::kIQ4_XS>(); return true;
    case DType::kMXFP4: f.template operator()<DType::kMXFP4>(); return true;
    default: return false;
  }
}

}  // namespace slipstream::cuda
