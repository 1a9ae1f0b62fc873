// The arithmetic that every sampler shares, bit for bit: order-preserving keys, fixed-point mass, Philox noise and the
// logarithm behind it. Integers and single IEEE operations only, so that host SIMD and devices can repeat it exactly.
// Must never know a row's parameters.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define SLIP_HD __host__ __device__
#else
#define SLIP_HD
#endif

namespace slipstream::law {

SLIP_HD inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
SLIP_HD inline float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// a < b as floats iff key(a) < key(b) as integers; -0 and +0 share a key. Not for NaN.
SLIP_HD inline uint32_t order_key(float x) {
  const uint32_t bits = float_bits(x + 0.0f);  // -0 + 0 = +0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// ---- mass = floor(2^40 exp(d)), d <= 0 ----
// 2^-y with y = -d log2(e) in float: n = floor(y), the fraction's top five bits from a table, the rest by a
// degree-4 Taylor polynomial in 32-bit fixed point. Relative error below 2^-18 at y = 40 and 2^-23 near 0 (the float
// product dominates); monotone in d.
inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kMassEnd = 41.0f;  // 2^40 2^-41 < 1
inline constexpr int kMassBits = 40;

/// (ln 2 / 32)^k / k! in units of 2^-32, k = 1..4; multiplied by powers of g in [0, 1).
inline constexpr uint32_t kExpC1 = 93032640u;
inline constexpr uint32_t kExpC2 = 1007583u;
inline constexpr uint32_t kExpC3 = 7275u;
inline constexpr uint32_t kExpC4 = 39u;

/// round(2^31 2^(-i/32))
struct ExpTable {
  uint32_t value[32];
};
SLIP_HD constexpr ExpTable make_exp_table() {
  ExpTable table{};
  // 2^(-1/32) by the exponential series; then powers. Rounded to 2^-31, far above the error of double (no entry is
  // nearer than 0.002 to a tie).
  double step = 1, term = 1;
  const double x = -0.693147180559945309417232121458176568 / 32;
  for (int k = 1; k < 20; ++k) {
    term = term * x / k;
    step += term;
  }
  double value = 2147483648.0;
  for (int i = 0; i < 32; ++i) {
    table.value[i] = static_cast<uint32_t>(value + 0.5);
    value *= step;
  }
  return table;
}
inline constexpr ExpTable kExpTable = make_exp_table();

SLIP_HD inline uint32_t mul_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}

/// a * b, rounded before anything is added to it, whatever the compiler's contraction flags are.
SLIP_HD inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// mass with the table given: a device keeps it where its threads can index it.
SLIP_HD inline uint64_t mass_from(const uint32_t* exp_table, float d) {
  const float y = product(-d, kLog2E);
  if (!(y < kMassEnd)) return 0;
  const int n = static_cast<int>(y);
  const float fraction = y - static_cast<float>(n);
  const uint32_t f = static_cast<uint32_t>(fraction * 4294967296.0f);
  const uint32_t g = f << 5;  // the fraction below the table's step, in units of 2^-32 of a step
  uint32_t p = kExpC3 - mul_high(g, kExpC4);
  p = kExpC2 - mul_high(g, p);
  p = kExpC1 - mul_high(g, p);
  // 1 - g p in units of 2^-32; p > 0, and g = 0 would need 2^32: taken one unit short, in every implementation
  const uint32_t power = 0xFFFFFFFFu - mul_high(g, p);
  const uint64_t scaled = static_cast<uint64_t>(exp_table[f >> 27]) * power;  // 2^63 2^-(f)
  return scaled >> (63 - kMassBits + n);
}
inline uint64_t mass(float d) { return mass_from(kExpTable.value, d); }

// ---- natural logarithm of a positive normal float ----
// Reduction to [sqrt(1/2), sqrt(2)) and a degree-8 polynomial for log1p; coefficients as published in the Cephes
// library's logf. About 1 ulp.
SLIP_HD inline float log1p_reduced(float f) {  // f in (-0.2929, 0.4143)
  const float z = f * f;
  float p = 7.0376836292e-2f;
  p = fmaf(p, f, -1.1514610310e-1f);
  p = fmaf(p, f, 1.1676998740e-1f);
  p = fmaf(p, f, -1.2420140846e-1f);
  p = fmaf(p, f, 1.4249322787e-1f);
  p = fmaf(p, f, -1.6668057665e-1f);
  p = fmaf(p, f, 2.0000714765e-1f);
  p = fmaf(p, f, -2.4999993993e-1f);
  p = fmaf(p, f, 3.3333331174e-1f);
  return fmaf(p * z, f, fmaf(-0.5f, z, f));
}
SLIP_HD inline float log(float x) {
  uint32_t bits = float_bits(x);
  // the exponent of x / sqrt(1/2): mantissas from sqrt(1/2) up belong to the next power of two
  const int32_t exponent = static_cast<int32_t>(bits - 0x3F3504F3u) >> 23;
  bits -= static_cast<uint32_t>(exponent) << 23;
  const float e = static_cast<float>(exponent);
  const float tail = fmaf(e, -2.12194440e-4f, log1p_reduced(bits_float(bits) - 1.0f));
  return fmaf(e, 0.693359375f, tail);
}

// ---- noise ----
/// Philox4x32-10 (Salmon et al., SC'11).
struct PhiloxBlock {
  uint32_t word[4];
};
SLIP_HD inline PhiloxBlock philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b);
    c3 = static_cast<uint32_t>(a);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

inline constexpr uint32_t kSampleDomain = 0;

/// -log(-log(u)), u = (r + 1/2) / 2^32. The inner logarithm near u = 1 is log1p of the complement.
SLIP_HD inline float gumbel(uint32_t r) {
  const bool upper = r >= 0x80000000u;
  const uint32_t distance = upper ? ~r : r;  // from 1 or from 0
  // (distance + 1/2) 2^-32 in float; one rounding, of an integer below 2^31
  const float t = fmaf(static_cast<float>(static_cast<int32_t>(distance)), 2.3283064365386963e-10f,
                       1.1641532182693481e-10f);
  const bool direct = upper && t < 0.25f;
  const float inner = direct ? log1p_reduced(-t) : log(upper ? 1.0f - t : t);
  return -log(-inner);
}

/// The noise of one token of one draw.
SLIP_HD inline float token_noise(uint64_t seed, int32_t choice, int32_t position, int32_t token) {
  const PhiloxBlock block = philox(seed, static_cast<uint32_t>(choice), static_cast<uint32_t>(position),
                                   static_cast<uint32_t>(token) >> 2, kSampleDomain);
  return gumbel(block.word[token & 3]);
}

/// Temperatures below this are argmax: division by them could leave the float range.
inline constexpr float kGreedyTemperature = 1e-5f;

/// Mass that top-p must reach: ceil(p total), one IEEE double product.
SLIP_HD inline uint64_t top_p_need(float p, uint64_t total) {
  return static_cast<uint64_t>(ceil(static_cast<double>(p) * static_cast<double>(total)));
}

/// ln(sum / 2^40) of a fixed-point mass sum; sum > 0.
SLIP_HD inline float log_mass(uint64_t sum) {
  return log(static_cast<float>(static_cast<double>(sum) * (1.0 / 1099511627776.0)));
}

}  // namespace slipstream::law
