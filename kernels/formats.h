// Block formats: how the bytes of a stored row become floats, and the f16 and bf16 conversions that everything shares.
// Owns layouts and exact rounding; knows no file, tensor name or kernel.
//
// Formats are those of GGUF; layouts and formulas follow its public block definitions, and the unit tests compare
// each with the `gguf` Python package bit for bit. All fields are little-endian; d, m, dmin are IEEE half floats.
// "nibbles, split": byte b of the group holds element b in its low and element b + 16 in its high four bits.
//
//   Q4_0    32 elements   d | 16 nibble bytes, split                       y = d * (q - 8)
//   Q4_1    32            d, m | 16 nibble bytes, split                    y = d * q + m
//   Q5_0    32            d | u32 high bits | 16 nibble bytes, split       y = d * (q - 16)
//   Q5_1    32            d, m | u32 high bits | 16 nibble bytes, split    y = d * q + m
//   Q8_0    32            d | 32 x i8                                      y = d * q
//   Q2_K   256            16 x (scale:4, min:4) | 64 x 2-bit | d, dmin     y = (d * scale) * q - (dmin * min)
//   Q3_K   256            32 high-bit | 64 x 2-bit | 12 scale bytes | d    y = (d * scale) * q
//   Q4_K   256            d, dmin | 12 scale bytes | 128 nibble bytes      y = (d * scale) * q - (dmin * min)
//   Q5_K   256            d, dmin | 12 scale | 32 high-bit | 128 nibble    y = (d * scale) * q - (dmin * min)
//   Q6_K   256            128 low | 64 high | 16 x i8 scale | d            y = (d * scale) * (q - 32)
//   IQ4_NL  32            d | 16 nibble bytes, split                       y = d * kIQ4Values[q]
//   IQ4_XS 256            d | u16 high | 4 low scale | 8 x 16 nibble       y = (d * scale) * kIQ4Values[q]
//   MXFP4   32            u8 exponent e | 16 nibble bytes, split           y = 2^(e - 128) * kE2M1Doubled[q]
//
// F8_E4M3 (not of GGUF; OCP 8-bit floating point, "E4M3", as torch.float8_e4m3fn): a byte is sign:1, exponent:4 (bias 7),
// mantissa:3; no infinities, 0x7f and 0xff are NaN, the largest value is 448.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace slipstream {

/// row[0..elements) as floats. elements is a multiple of the block; dtype is any but kI32. No alignment is needed.
/// NaN and infinite scales give NaN and infinite values; nothing is hidden.
void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements);

/// The nearest stored row, rounded as the `gguf` package rounds. Only F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and
/// Q8_0 (see can_quantize); values are finite. F8_E4M3 as f32_to_e4m3.
void quantize_row(DType dtype, const float* values, std::byte* row, int64_t elements);
bool can_quantize(DType dtype);

/// The 16 levels of IQ4_NL and IQ4_XS (llama.cpp, kvalues_iq4nl).
inline constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// Twice the values of FP4 E2M1 (OCP Microscaling formats 1.0): integers, so that int8 dot products can use them.
inline constexpr int8_t kE2M1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Scale and minimum of sub-block `index` (0..7, 32 elements each) from the 12 packed bytes of Q4_K and Q5_K.
struct ScaleMin {
  uint8_t scale;  // 6 bits
  uint8_t min;    // 6 bits
};
inline ScaleMin unpack_scale_min(const uint8_t* packed, int index) {
  if (index < 4) {
    return {static_cast<uint8_t>(packed[index] & 63), static_cast<uint8_t>(packed[index + 4] & 63)};
  }
  return {static_cast<uint8_t>((packed[index + 4] & 15) | ((packed[index - 4] >> 6) << 4)),
          static_cast<uint8_t>((packed[index + 4] >> 4) | ((packed[index] >> 6) << 4))};
}

/// Scale of sub-block `index` (0..15, 16 elements each) from the 12 packed bytes of Q3_K, in -32..31.
inline int8_t unpack_q3k_scale(const uint8_t* packed, int index) {
  const int low = (packed[index % 8] >> (index < 8 ? 0 : 4)) & 15;
  const int high = (packed[8 + index % 4] >> (2 * (index / 4))) & 3;
  return static_cast<int8_t>((low | (high << 4)) - 32);
}

/// Exact. A signalling NaN becomes quiet, as with the F16C instructions.
inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: an integer times 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

/// Round to nearest even; overflow gives infinity, NaN stays NaN.
inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520 rounds past 65504
  if (magnitude < 0x38800000u) {
    // Below 2^-14: 0.5f has the ulp 2^-24 of a half subnormal, so the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

inline float bf16_to_f32(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

/// Round to nearest even; overflow gives infinity, NaN stays NaN (made quiet).
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Exact.
inline float e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t mantissa = code & 7u;
  if (exponent == 0)  // zero or subnormal: an integer times 2^-9
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-9f));
  if ((code & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

/// Round to nearest even, saturating at +-448 (infinities too); NaN gives 0x7f: cvt.rn.satfinite of the GPUs.
inline uint8_t f32_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // >= 448
  if (magnitude < 0x3c800000u) {
    // Below 2^-6: 2^14 has the ulp 2^-9 of a subnormal, so the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000u));
  }
  const uint32_t rounded = magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | (rounded >> 20));
}

}  // namespace slipstream
