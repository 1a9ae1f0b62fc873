// The polynomials of kernels/law.h against libm in double, over their stated domains.
#include "kernels/law.h"
#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using law::Lane1;

TEST_CASE("exp is within its stated error", "[law]") {
  double worst = 0;
  for (int i = 0; i <= 400000; ++i) {
    const float x = -86.0f + 174.0f * static_cast<float>(i) / 400000.0f;
    const double want = std::exp(double{x});
    worst = std::max(worst, std::fabs(law::exp<Lane1>(x) / want - 1));
  }
  CHECK(worst < 1.2e-7);
  CHECK(worst > 1e-8);  // a float result cannot do better: the loop did run
  CHECK(law::exp<Lane1>(0.0f) == 1.0f);
  CHECK(law::exp<Lane1>(-1000.0f) < 1e-36f);
  CHECK(std::isnan(law::exp<Lane1>(NAN)));
}

TEST_CASE("sin and cos are within their stated error", "[law]") {
  double worst = 0;
  for (const float range : {4.0f, 8192.0f, 131072.0f})
    for (int i = 0; i <= 300000; ++i) {
      const float x = range * (static_cast<float>(i) / 150000.0f - 1.0f);
      float s, c;
      law::sincos<Lane1>(x, &s, &c);
      worst = std::max({worst, std::fabs(s - std::sin(double{x})), std::fabs(c - std::cos(double{x}))});
    }
  CHECK(worst < 1.2e-7);
  CHECK(worst > 1e-8);
}
