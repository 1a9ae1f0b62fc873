// The arithmetic of dummy weights (the law is stated in engine/weights/dummy_weights.h), written once for host and
// device: integers modulo 2^64 and floats with one rounding per operation, so both give the same bits. Knows formats and
// numbers; no tensor name and no checkpoint.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/tensor.h"

#if defined(__CUDACC__)
#define SLIP_DUMMY_HD __host__ __device__
#else
#define SLIP_DUMMY_HD
#endif

namespace slipstream::dummy_law {

inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

/// The finaliser of splitmix64.
SLIP_DUMMY_HD constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

SLIP_DUMMY_HD constexpr uint64_t word(uint64_t key, uint64_t index) { return mix(key + (index + 1) * kGolden); }

/// About normal, an integer with standard deviation 65536 / sqrt(3).
SLIP_DUMMY_HD inline float centred(uint64_t w) {
  const uint64_t sum = (w & 0xffffu) + ((w >> 16) & 0xffffu) + ((w >> 32) & 0xffffu) + (w >> 48);
  return static_cast<float>(static_cast<int32_t>(sum) - 131070);
}

/// Where the scale fields of a block are, and how large its values are at d = 1 when the other bytes are random.
struct BlockScales {
  int d_at = -1;        // -1: no such format
  double rms = 0;       // root mean square of the values, with m at its mean
  int m_at = -1;        // of m or dmin; -1: the format has none
  float m_ratio = 0;    // m / d that centres the values on zero
};

constexpr BlockScales block_scales(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return {0, 4.6368, -1, 0.0f};
    case DType::kQ4_1: return {0, 4.6098, 2, -7.5f};
    case DType::kQ5_0: return {0, 9.2466, -1, 0.0f};
    case DType::kQ5_1: return {0, 9.2331, 2, -15.5f};
    case DType::kQ8_0: return {0, 73.902, -1, 0.0f};
    case DType::kQ2_K: return {80, 14.71, 82, 1.5f};
    case DType::kQ3_K: return {108, 43.34, -1, 0.0f};
    case DType::kQ4_K: return {0, 259.0, 2, 7.5f};
    case DType::kQ5_K: return {0, 527.0, 2, 15.5f};
    case DType::kQ6_K: return {208, 1365.9, -1, 0.0f};
    case DType::kIQ4_NL: return {0, 68.27, -1, 0.0f};
    case DType::kIQ4_XS: return {0, 1261.6, -1, 0.0f};
    default: return {};
  }
}

/// What a block's d is about, before jitter and sign. Host.
inline float block_base(DType dtype, int64_t fan_in) {
  return static_cast<float>(1.0 / (block_scales(dtype).rms * std::sqrt(static_cast<double>(fan_in))));
}
/// Of an element of a matrix in a plain format: value = centred(word) * scale. Host.
inline float matrix_scale(int64_t fan_in) {
  return static_cast<float>(std::sqrt(3.0) / 65536.0 / std::sqrt(static_cast<double>(fan_in)));
}

/// F8_E4M3 codes hold so many times the value; their scales are about the inverse.
inline constexpr float kF8Factor = 1024.0f;

/// Words of a block of so many bytes, its scales' word included.
SLIP_DUMMY_HD constexpr uint64_t block_words(int32_t block_bytes) {
  return static_cast<uint64_t>(block_bytes + 7) / 8 + 1;
}

struct BlockLevels {
  float d, m;  // before rounding to half
};

/// From the block's last word. `base`: block_base.
SLIP_DUMMY_HD inline BlockLevels block_levels(uint64_t w, float base, float m_ratio) {
  const float jitter = 0.75f + static_cast<float>(w >> 40) * 0x1p-25f;
  const float d = base * jitter * ((w & 1) != 0 ? -1.0f : 1.0f);
  const float wobble = 0.875f + static_cast<float>((w >> 8) & 0xffffffu) * 0x1p-26f;
  return {d, d * m_ratio * wobble};
}

/// MXFP4's exponent byte, from the block's last word; width is bit_width(fan_in).
SLIP_DUMMY_HD constexpr uint8_t block_exponent(uint64_t w, int width) {
  return static_cast<uint8_t>(125 - width / 2 + static_cast<int>((w >> 62) % 3) - 1);
}

}  // namespace slipstream::dummy_law
