// The law of the draws: chi-square against probabilities computed in double precision, over 1e5 and more draws.
#include <cmath>

#include "tests/catch.h"
#include "tests/unit/sample/rows.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

// 99.9 % quantile of chi-square with k degrees (Wilson–Hilferty).
double chi_square_bound(double k) { return k * std::pow(1 - 2 / (9 * k) + 3.09 * std::sqrt(2 / (9 * k)), 3); }

void check_law(const std::vector<float>& logits, SampleRow row, const std::vector<double>& probability, int draws) {
  std::vector<int> count(logits.size(), 0);
  for (int i = 0; i < draws; ++i) {
    row.position = i;
    ++count[by_cpu(logits, row, true).token];
  }
  double chi = 0;
  int classes = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double expected = probability[v] * draws;
    if (probability[v] == 0) {
      CHECK(count[v] == 0);
      continue;
    }
    REQUIRE(expected > 5);
    chi += (count[v] - expected) * (count[v] - expected) / expected;
    ++classes;
  }
  CHECK(chi < chi_square_bound(classes - 1));
  CHECK(chi > 0);
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature, const std::vector<bool>& kept) {
  std::vector<double> p(logits.size(), 0);
  double sum = 0;
  for (size_t v = 0; v < p.size(); ++v)
    if (kept[v]) sum += p[v] = std::exp(logits[v] / temperature);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

TEST_CASE("plain draws follow softmax") {
  const std::vector<float> logits = random_logits(64, 1.0f, 1);
  SampleRow row;
  row.seed = 11;
  check_law(logits, row, softmax(logits, 1, std::vector<bool>(64, true)), 200000);
}

TEST_CASE("temperature, choice and seed give independent lawful draws") {
  const std::vector<float> logits = random_logits(40, 1.0f, 2);
  SampleRow row;
  row.temperature = 0.7f;
  for (const uint64_t seed : {0ull, 1ull, ~0ull}) {
    row.seed = seed;
    row.choice = static_cast<int32_t>(seed & 1);
    check_law(logits, row, softmax(logits, 0.7f, std::vector<bool>(40, true)), 100000);
  }
}

TEST_CASE("filtered draws follow the renormalised law") {
  const std::vector<float> logits = random_logits(50, 1.2f, 3);
  std::vector<float> sorted = logits;
  std::sort(sorted.rbegin(), sorted.rend());
  SampleRow row;
  row.seed = 5;
  row.top_k = 12;
  std::vector<bool> kept(50);
  for (size_t v = 0; v < 50; ++v) kept[v] = logits[v] >= sorted[11];
  check_law(logits, row, softmax(logits, 1, kept), 100000);
  row.top_k = 0;
  row.min_p = 0.2f;
  for (size_t v = 0; v < 50; ++v) kept[v] = logits[v] >= sorted[0] + std::log(0.2);
  check_law(logits, row, softmax(logits, 1, kept), 100000);
}
