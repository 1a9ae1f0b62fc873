// The sampler's arithmetic against published vectors and the C library in double precision.
#include <cmath>

#include "kernels/sample_law.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  const auto words = [](uint64_t key, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const law::PhiloxBlock block = law::philox(key, a, b, c, d);
    return std::vector<uint32_t>(block.word, block.word + 4);
  };
  CHECK(words(0, 0, 0, 0, 0) == std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(~0ull, ~0u, ~0u, ~0u, ~0u) == std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(0x299f31d0a4093822ull, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344) ==
        std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("mass is 2^40 exp(d), monotone, and 0 far below the maximum") {
  CHECK(std::abs(static_cast<double>(law::mass(0.0f)) - std::ldexp(1.0, 40)) <= 512);  // one unit of 2^-31 short
  CHECK(law::mass(-29.0f) == 0);
  CHECK(law::mass(-INFINITY) == 0);
  uint64_t previous = law::mass(0.0f);
  for (float d = -1e-4f; d > -20.0f; d *= 1.003f) {
    const double exact = std::ldexp(std::exp(static_cast<double>(d)), 40);
    INFO("d = " << d);
    REQUIRE(std::abs(static_cast<double>(law::mass(d)) - exact) <= 1 + 2e-6 * exact);  // 1: the floor
    REQUIRE(law::mass(d) <= previous);
    previous = law::mass(d);
  }
}

TEST_CASE("the logarithm is within two units of the last place") {
  for (double x = 1e-30; x < 1e30; x *= 1.0137) {
    const float value = static_cast<float>(x);
    const double exact = std::log(static_cast<double>(value));
    INFO("x = " << x);
    REQUIRE(std::abs(law::log(value) - exact) <= 2.4e-7 * std::max(std::abs(exact), 0.05));
  }
  CHECK(law::log(1.0f) == 0.0f);
}

TEST_CASE("Gumbel noise follows -log(-log(u)) to both ends") {
  for (const uint32_t r : {0u, 1u, 77u, 1u << 16, 0x7FFFFFFFu, 0x80000000u, 0xC0000000u, 0xF0000000u, 0xFFFFFF00u,
                           0xFFFFFFFEu, 0xFFFFFFFFu}) {
    const long double u = (static_cast<long double>(r) + 0.5L) / 4294967296.0L;
    const double exact = static_cast<double>(-std::log(-std::log(u)));
    INFO("r = " << r);
    CHECK(law::gumbel(r) == Approx(exact).epsilon(1e-6).margin(1e-6));
  }
  CHECK(law::gumbel(0xFFFFFFFFu) < 22.9f);
}

TEST_CASE("keys order floats and join the zeros") {
  const float sorted[] = {-INFINITY, -3e38f, -1.0f, -1e-40f, 0.0f, 1e-40f, 1.0f, 3e38f, INFINITY};
  for (size_t i = 1; i < std::size(sorted); ++i) CHECK(law::order_key(sorted[i - 1]) < law::order_key(sorted[i]));
  CHECK(law::order_key(-0.0f) == law::order_key(0.0f));
}
