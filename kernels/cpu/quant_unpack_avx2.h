// Packed blocks -> registers: eight vectors of codes (group q, byte row * 4 + i) and the scales of 8 rows as floats.
// For files compiled with -mavx2 -mfma -mf16c only.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/packed_layout.h"
#include "kernels/formats.h"

namespace slipstream {
namespace {

/// packed_layout(dtype) as constants of a type.
template <CodePlanes Planes, ScaleLayout Scales, bool Signed, int ZeroShift, int Groups, bool Min, int Bits, int Header>
struct BlockShape {
  static constexpr CodePlanes kPlanes = Planes;
  static constexpr ScaleLayout kScales = Scales;
  static constexpr bool kSigned = Signed;
  static constexpr int kZeroShift = ZeroShift;
  static constexpr int kGroups = Groups;
  static constexpr bool kMin = Min;
  static constexpr int kBits = Bits;
  static constexpr int kHeader = Header;
  static constexpr int kCodeBytes = Planes == CodePlanes::kLow4         ? 128
                                    : Planes == CodePlanes::kLow4Bits1  ? 160
                                    : Planes == CodePlanes::kLow4Bits2  ? 192
                                    : Planes == CodePlanes::kBits2      ? 64
                                    : Planes == CodePlanes::kBits2Bits1 ? 96
                                                                        : 256;
};

using P = CodePlanes;
using S = ScaleLayout;
template <DType>
struct Shape;
template <> struct Shape<DType::kQ4_0> : BlockShape<P::kLow4, S::kHalf, false, 3, 1, false, 4, 0> {};
template <> struct Shape<DType::kQ4_1> : BlockShape<P::kLow4, S::kHalf, false, -1, 1, true, 4, 0> {};
template <> struct Shape<DType::kQ5_0> : BlockShape<P::kLow4Bits1, S::kHalf, false, 4, 1, false, 5, 0> {};
template <> struct Shape<DType::kQ5_1> : BlockShape<P::kLow4Bits1, S::kHalf, false, -1, 1, true, 5, 0> {};
template <> struct Shape<DType::kQ8_0> : BlockShape<P::kInt8, S::kHalf, true, -1, 1, false, 8, 0> {};
template <> struct Shape<DType::kQ2_K> : BlockShape<P::kBits2, S::kSubNibbles, false, -1, 2, true, 2, 32> {};
template <> struct Shape<DType::kQ3_K> : BlockShape<P::kBits2Bits1, S::kSub, false, 2, 2, false, 3, 16> {};
template <> struct Shape<DType::kQ4_K> : BlockShape<P::kLow4, S::kSub, false, -1, 1, true, 4, 32> {};
template <> struct Shape<DType::kQ5_K> : BlockShape<P::kLow4Bits1, S::kSub, false, -1, 1, true, 5, 32> {};
template <> struct Shape<DType::kQ6_K> : BlockShape<P::kLow4Bits2, S::kSub, false, 5, 2, false, 6, 16> {};
template <> struct Shape<DType::kIQ4_NL> : BlockShape<P::kLow4, S::kHalf, true, -1, 1, false, 8, 0> {
  static constexpr const int8_t* kTable = kIQ4Values;
};
template <> struct Shape<DType::kIQ4_XS> : BlockShape<P::kLow4, S::kSub, true, -1, 1, false, 8, 16> {
  static constexpr const int8_t* kTable = kIQ4Values;
};
template <> struct Shape<DType::kMXFP4> : BlockShape<P::kLow4, S::kExponent, true, -1, 1, false, 8, 0> {
  static constexpr const int8_t* kTable = kE2M1Doubled;
};

inline __m256i load32(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline __m256 load_half8(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __m256i load_i8x8(const uint8_t* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

/// Moves bits selected by `mask` in every byte by `left` (negative: right); they must not leave their byte.
template <int Left>
inline __m256i move_bits(__m256i v, int mask) {
  const __m256i picked = _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask)));
  if constexpr (Left > 0) return _mm256_slli_epi16(picked, Left);
  if constexpr (Left < 0) return _mm256_srli_epi16(picked, -Left);
  return picked;
}

template <int Target>
inline void or_bits1(__m256i plane, __m256i c[8]) {
  c[0] = _mm256_or_si256(c[0], move_bits<Target - 0>(plane, 1));
  c[1] = _mm256_or_si256(c[1], move_bits<Target - 1>(plane, 2));
  c[2] = _mm256_or_si256(c[2], move_bits<Target - 2>(plane, 4));
  c[3] = _mm256_or_si256(c[3], move_bits<Target - 3>(plane, 8));
  c[4] = _mm256_or_si256(c[4], move_bits<Target - 4>(plane, 16));
  c[5] = _mm256_or_si256(c[5], move_bits<Target - 5>(plane, 32));
  c[6] = _mm256_or_si256(c[6], move_bits<Target - 6>(plane, 64));
  c[7] = _mm256_or_si256(c[7], move_bits<Target - 7>(plane, 128));
}

template <int Target>
inline void bits2(const uint8_t* planes, __m256i c[8]) {
  for (int p = 0; p < 2; ++p) {
    const __m256i plane = load32(planes + 32 * p);
    c[4 * p + 0] = move_bits<Target - 0>(plane, 3);
    c[4 * p + 1] = move_bits<Target - 2>(plane, 12);
    c[4 * p + 2] = move_bits<Target - 4>(plane, 48);
    c[4 * p + 3] = move_bits<Target - 6>(plane, 192);
  }
}

template <DType D>
inline __attribute__((always_inline)) void unpack_codes(const uint8_t* block, __m256i c[8]) {
  using T = Shape<D>;
  if constexpr (T::kPlanes == CodePlanes::kInt8) {
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) c[q] = load32(block + 32 * q);
  } else if constexpr (T::kPlanes == CodePlanes::kBits2 || T::kPlanes == CodePlanes::kBits2Bits1) {
    bits2<0>(block, c);
    if constexpr (T::kPlanes == CodePlanes::kBits2Bits1) or_bits1<2>(load32(block + 64), c);
  } else {
    const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      const __m256i v = load32(block + 32 * p);
      c[p] = _mm256_and_si256(v, low);
      c[p + 4] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    }
    if constexpr (T::kPlanes == CodePlanes::kLow4Bits1) or_bits1<4>(load32(block + 128), c);
    if constexpr (T::kPlanes == CodePlanes::kLow4Bits2) {
      __m256i high[8];
      bits2<4>(block + 128, high);
#pragma GCC unroll 8
      for (int q = 0; q < 8; ++q) c[q] = _mm256_or_si256(c[q], high[q]);
    }
    if constexpr (requires { T::kTable; }) {
      const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(T::kTable)));
#pragma GCC unroll 8
      for (int q = 0; q < 8; ++q) c[q] = _mm256_shuffle_epi8(table, c[q]);
    }
  }
}

/// 2^(e - 128), also where that is subnormal.
inline __m256 exponent_scales(const uint8_t* p) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

/// scale[g] and, with minima, min[g] of 8 rows. Products of a half and a small integer are exact.
template <DType D>
inline __attribute__((always_inline)) void unpack_scales(const uint8_t* header, const uint8_t* scales,
                                                         __m256 scale[2], __m256 min[2]) {
  using T = Shape<D>;
  if constexpr (T::kScales == ScaleLayout::kHalf) {
    scale[0] = load_half8(scales);
    if constexpr (T::kMin) min[0] = load_half8(scales + 16);
  } else if constexpr (T::kScales == ScaleLayout::kExponent) {
    scale[0] = exponent_scales(scales);
  } else if constexpr (T::kScales == ScaleLayout::kSub) {
    const __m256 d = load_half8(header);
    for (int g = 0; g < T::kGroups; ++g) scale[g] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(load_i8x8(scales + 8 * g)));
    if constexpr (T::kMin) {
      const __m256 m = _mm256_mul_ps(load_half8(header + 16), _mm256_cvtepi32_ps(load_i8x8(scales + 8)));
      min[0] = _mm256_sub_ps(_mm256_setzero_ps(), m);
    }
  } else {
    const __m256 d = load_half8(header);
    const __m256 dmin = load_half8(header + 16);
    for (int g = 0; g < 2; ++g) {
      const __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales + 8 * g)));
      scale[g] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_and_si256(both, _mm256_set1_epi32(15))));
      const __m256 m = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4)));
      min[g] = _mm256_sub_ps(_mm256_setzero_ps(), m);
    }
  }
}

/// Calls visit.template operator()<dtype>() for a block-quantised dtype.
template <typename Visit>
inline void with_format(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kQ4_0: return visit.template operator()<DType::kQ4_0>();
    case DType::kQ4_1: return visit.template operator()<DType::kQ4_1>();
    case DType::kQ5_0: return visit.template operator()<DType::kQ5_0>();
    case DType::kQ5_1: return visit.template operator()<DType::kQ5_1>();
    case DType::kQ8_0: return visit.template operator()<DType::kQ8_0>();
    case DType::kQ2_K: return visit.template operator()<DType::kQ2_K>();
    case DType::kQ3_K: return visit.template operator()<DType::kQ3_K>();
    case DType::kQ4_K: return visit.template operator()<DType::kQ4_K>();
    case DType::kQ5_K: return visit.template operator()<DType::kQ5_K>();
    case DType::kQ6_K: return visit.template operator()<DType::kQ6_K>();
    case DType::kIQ4_NL: return visit.template operator()<DType::kIQ4_NL>();
    case DType::kIQ4_XS: return visit.template operator()<DType::kIQ4_XS>();
    case DType::kMXFP4: return visit.template operator()<DType::kMXFP4>();
    default: return;
  }
}

/// The blocks of a tile in order: header and block addresses without a division per block.
template <DType D>
struct BlockCursor {
  static constexpr int kBlockBytes = Shape<D>::kCodeBytes + (Shape<D>::kScales == ScaleLayout::kExponent ? 8
                                     : Shape<D>::kScales == ScaleLayout::kHalf ? (Shape<D>::kMin ? 32 : 16)
                                     : Shape<D>::kScales == ScaleLayout::kSub
                                         ? (Shape<D>::kMin || Shape<D>::kGroups == 2 ? 16 : 8)
                                         : 16);
  static constexpr int kHeader = Shape<D>::kHeader;
  const uint8_t* header;
  const uint8_t* block;
  int left;  // blocks until the next header

  BlockCursor(const uint8_t* tile, int64_t index) {
    if constexpr (kHeader == 0) {
      header = nullptr;
      block = tile + index * kBlockBytes;
      left = 0;
    } else {
      header = tile + index / 8 * (kHeader + 8 * kBlockBytes);
      block = header + kHeader + index % 8 * kBlockBytes;
      left = 8 - static_cast<int>(index % 8);
    }
  }
  void next() {
    block += kBlockBytes;
    if constexpr (kHeader != 0) {
      if (--left == 0) {
        header = block;
        block += kHeader;
        left = 8;
      }
    }
  }
};

}  // namespace
}  // namespace slipstream
