// The elementary functions of the CPU kernel law: exp, sin and cos as fixed polynomials, written once over a lane type
// so that scalar code and every SIMD width give the same bits. Knows no tensor and no instruction set.
//
// Coefficients: our own minimax fits (Lawson-weighted least squares, then rounded to float). Errors stated below were
// measured against long double over the whole domain (tests/ops/test_law.cpp).
// The sampler's integer arithmetic is in kernels/sample_law.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace slipstream::law {

/// One lane. A SIMD type offers the same members over vectors (kernels/cpu/simd_avx2.h).
struct Lane1 {
  using F = float;
  using I = uint32_t;
  static constexpr int kWidth = 1;
  static F load(const float* p) { return *p; }
  static void store(float* p, F v) { *p = v; }
  static F set(float v) { return v; }
  static I set_bits(uint32_t v) { return v; }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }
  static F max(F a, F b) { return a > b ? a : b; }  // b when unordered, as MAXPS
  static F min(F a, F b) { return a < b ? a : b; }
  static I bits(F v) { return std::bit_cast<uint32_t>(v); }
  static F from_bits(I v) { return std::bit_cast<float>(v); }
  static I iadd(I a, I b) { return a + b; }
  static I isub(I a, I b) { return a - b; }
  static I iand(I a, I b) { return a & b; }
  static I ior(I a, I b) { return a | b; }
  static I ixor(I a, I b) { return a ^ b; }
  static I andnot(I mask, I v) { return ~mask & v; }
  template <int N>
  static I shl(I v) { return v << N; }
};

/// Adding and subtracting this rounds a float of magnitude below 2^22 to the nearest integer, ties to even; the low
/// mantissa bits of the sum hold that integer.
inline constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23

/// e^x, relative error below 1.2e-7 on [-86, 88]; arguments outside are clamped to that range. NaN stays NaN.
template <class V>
inline __attribute__((always_inline)) typename V::F exp(typename V::F x) {
  x = V::min(V::set(88.0f), V::max(V::set(-86.0f), x));
  const auto shifted = V::fma(x, V::set(0x1.715476p+0f), V::set(kRoundMagic));
  const auto n = V::sub(shifted, V::set(kRoundMagic));
  auto r = V::fma(n, V::set(-0x1.62e4p-1f), x);  // ln 2 in two parts, the first of 15 bits
  r = V::fma(n, V::set(-0x1.7f7d1cp-20f), r);
  auto p = V::set(0x1.6a234ep-10f);
  p = V::fma(p, r, V::set(0x1.123a6cp-7f));
  p = V::fma(p, r, V::set(0x1.5558f4p-5f));
  p = V::fma(p, r, V::set(0x1.555490p-3f));
  p = V::fma(p, r, V::set(0x1.fffffcp-2f));
  const auto y = V::add(V::fma(V::mul(r, r), p, r), V::set(1.0f));
  const auto power = V::template shl<23>(V::iadd(V::bits(shifted), V::set_bits(127)));  // (n + 127) << 23
  return V::mul(y, V::from_bits(power));
}

/// sin and cos of x, |x| < 2^21; absolute error below 1.2e-7 for |x| <= 2^17 (pi/2 in three parts, fused).
template <class V>
inline __attribute__((always_inline)) void sincos(typename V::F x, typename V::F* sine, typename V::F* cosine) {
  const auto shifted = V::fma(x, V::set(0x1.45f306p-1f), V::set(kRoundMagic));
  const auto n = V::sub(shifted, V::set(kRoundMagic));
  auto r = V::fma(n, V::set(-0x1.921fb6p+0f), x);
  r = V::fma(n, V::set(0x1.777a5cp-25f), r);
  r = V::fma(n, V::set(0x1.ee59dap-50f), r);
  const auto z = V::mul(r, r);
  auto ps = V::set(0x1.6cd5ecp-19f);
  ps = V::fma(ps, z, V::set(-0x1.a00f94p-13f));
  ps = V::fma(ps, z, V::set(0x1.111108p-7f));
  ps = V::fma(ps, z, V::set(-0x1.555556p-3f));
  const auto s = V::fma(V::mul(r, z), ps, r);
  auto pc = V::set(-0x1.242908p-22f);
  pc = V::fma(pc, z, V::set(0x1.a01118p-16f));
  pc = V::fma(pc, z, V::set(-0x1.6c16b8p-10f));
  pc = V::fma(pc, z, V::set(0x1.555556p-5f));
  const auto c = V::fma(V::mul(z, z), pc, V::fma(z, V::set(-0.5f), V::set(1.0f)));
  // quadrant: odd swaps the two; bit 1 flips the sine, bit 1 of quadrant + 1 the cosine
  const auto quadrant = V::bits(shifted);
  const auto swap = V::isub(V::set_bits(0), V::iand(quadrant, V::set_bits(1)));
  const auto sb = V::ior(V::iand(swap, V::bits(c)), V::andnot(swap, V::bits(s)));
  const auto cb = V::ior(V::iand(swap, V::bits(s)), V::andnot(swap, V::bits(c)));
  const auto two = V::set_bits(2);
  *sine = V::from_bits(V::ixor(sb, V::template shl<30>(V::iand(quadrant, two))));
  *cosine = V::from_bits(V::ixor(cb, V::template shl<30>(V::iand(V::iadd(quadrant, V::set_bits(1)), two))));
}

/// g / (1 + e^-g) * u
template <class V>
inline __attribute__((always_inline)) typename V::F silu_mul(typename V::F gate, typename V::F up) {
  const auto e = exp<V>(V::sub(V::set(0.0f), gate));
  return V::mul(V::div(gate, V::add(V::set(1.0f), e)), up);
}

}  // namespace slipstream::law
