// See sha256.h. The round constants are the fractional parts of the cube roots of the first 64 primes, the initial state
// those of the square roots of the first 8: computed here from integers rather than listed.
#include "server/sha256.h"

#include <bit>
#include <cstring>
#include <vector>

namespace slipstream {
namespace {

struct Constants {
  std::array<uint32_t, 64> k{};
  std::array<uint32_t, 8> h{};
};

/// floor(2^32 * frac(n^(1/root))) by bisection on integers below 2^40.
constexpr uint32_t root_fraction(uint32_t n, int root) {
  unsigned __int128 low = 0, high = static_cast<unsigned __int128>(1) << 40;
  while (high - low > 1) {
    const unsigned __int128 mid = (low + high) / 2;
    // mid / 2^32 <= n^(1/root)  <=>  mid^root <= n * 2^(32 root)
    unsigned __int128 power = mid * mid;
    bool below = false;
    if (root == 2) {
      below = power <= static_cast<unsigned __int128>(n) << 64;
    } else {
      // mid^3 has up to 120 bits, n * 2^96 up to 105
      below = power <= ((static_cast<unsigned __int128>(n) << 96) / mid);
    }
    (below ? low : high) = mid;
  }
  return static_cast<uint32_t>(low);
}

const Constants& constants() {
  static const Constants table = [] {
    Constants c;
    int count = 0;
    for (uint32_t n = 2; count < 64; ++n) {
      bool prime = true;
      for (uint32_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      c.k[count] = root_fraction(n, 3);
      if (count < 8) c.h[count] = root_fraction(n, 2);
      ++count;
    }
    return c;
  }();
  return table;
}

void compress(std::array<uint32_t, 8>& state, const uint8_t* block) {
  const auto& k = constants().k;
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];
    const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  std::array<uint32_t, 8> state = constants().h;
  std::vector<uint8_t> padded(bytes.begin(), bytes.end());
  padded.push_back(0x80);
  while (padded.size() % 64 != 56) padded.push_back(0);
  const uint64_t bits = static_cast<uint64_t>(bytes.size()) * 8;
  for (int i = 7; i >= 0; --i) padded.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  for (size_t at = 0; at < padded.size(); at += 64) compress(state, padded.data() + at);
  Sha256 out;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 4; ++j) out[4 * i + j] = static_cast<uint8_t>(state[i] >> (24 - 8 * j));
  return out;
}

std::string to_hex(const Sha256& hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : hash) {
    out.push_back(digits[byte >> 4]);
    out.push_back(digits[byte & 15]);
  }
  return out;
}

bool equal_constant_time(const Sha256& a, const Sha256& b) {
  volatile uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = difference | (a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace slipstream
