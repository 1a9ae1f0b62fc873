// Widths against what they should be for known devices and drafters: the exhaustive best, and the cost of staying at zero.
#include <cmath>
#include <functional>
#include <random>

#include "engine/spec/draft_policy.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

/// A device and sequences whose drafts are accepted with chances of their own; counts tokens and time.
struct World {
  std::function<double(int32_t)> ms;             // of a step of so many rows
  std::vector<std::vector<double>> chances;      // [sequence][position], given the ones before
  int32_t most = 8, rows = 1000;
  std::mt19937 rng{5};
  double time = 0, tokens = 0;
  int64_t drafts = 0, steps = 0;
  std::vector<Acceptance> own{};
  std::vector<int32_t> last{};

  void run(DraftPolicy& policy, int32_t count) {
    if (own.size() != chances.size()) own.assign(chances.size(), policy.fresh());
    for (int32_t s = 0; s < count; ++s) {
      std::vector<DraftPolicy::Candidate> candidates;
      for (Acceptance& a : own) candidates.push_back({&a, most});
      const std::vector<int32_t> widths = policy.choose(candidates, rows);
      int32_t total = static_cast<int32_t>(widths.size());
      for (const int32_t w : widths) total += w;
      const double step = ms(total) * std::uniform_real_distribution<>(0.97, 1.03)(rng);
      time += step, ++steps, drafts += total - static_cast<int32_t>(widths.size());
      policy.record_step(total, step);
      for (size_t i = 0; i < widths.size(); ++i) {
        int32_t accepted = 0;
        while (accepted < widths[i] && std::uniform_real_distribution<>()(rng) < chances[i][static_cast<size_t>(accepted)]) ++accepted;
        tokens += 1 + accepted;
        if (widths[i] > 0) policy.record_span(widths[i], accepted, false, &own[i]);
      }
      last = widths;
    }
  }
  double rate() const { return tokens / time; }
  void forget() { time = tokens = 0, drafts = steps = 0; }

  /// Tokens a millisecond of the same width for all, by arithmetic.
  double rate_at(int32_t width) const {
    double all = 0;
    for (const auto& chance : chances) {
      double survival = 1;
      all += 1;
      for (int32_t j = 0; j < width; ++j) survival *= chance[static_cast<size_t>(j)], all += survival;
    }
    return all / ms(static_cast<int32_t>(chances.size()) * (1 + width));
  }
};

std::vector<std::vector<double>> alike(size_t sequences, double chance) {
  return std::vector<std::vector<double>>(sequences, std::vector<double>(16, chance));
}

double cpu_ms(int32_t rows) { return 10.0 + 1.5 * rows; }             // a row costs 13 % of a step
double gpu_ms(int32_t rows) { return 4.0 + 0.01 * rows; }             // rows are nearly free
double full_ms(int32_t rows) { return 1.0 * rows; }                   // rows are all that costs

}  // namespace

TEST_CASE("adaptive widths reach the best constant one on devices of every kind") {
  for (const auto& ms : {cpu_ms, gpu_ms, full_ms})
    for (const double chance : {0.02, 0.3, 0.6, 0.9})
      for (const size_t sequences : {size_t{1}, size_t{4}, size_t{24}}) {
        INFO("step of one row " << ms(1) << " ms, chance " << chance << ", " << sequences << " sequences");
        World world{ms, alike(sequences, chance)};
        DraftPolicy policy(DraftMode::kAdaptive, 8);
        world.run(policy, 500);
        world.forget();
        world.run(policy, 3000);
        double best = 0;
        for (int32_t w = 0; w <= 8; ++w) best = std::max(best, world.rate_at(w));
        CHECK(world.rate() > 0.93 * best);
        CHECK(world.rate() > 0.985 * world.rate_at(0));  // never slower than plain decoding
      }
}

TEST_CASE("drafts that are refused cost two rows in 256 steps and nothing else") {
  World world{full_ms, alike(1, 0.0)};
  DraftPolicy policy(DraftMode::kAdaptive, 8);
  world.run(policy, 1000);
  world.forget();
  const int64_t before = policy.probes();
  world.run(policy, 25600);
  CHECK(policy.probes() - before == 100);
  CHECK(world.drafts == 200);
}

TEST_CASE("a sequence that became predictable is found again by a probe") {
  World world{cpu_ms, alike(1, 0.0)};
  DraftPolicy policy(DraftMode::kAdaptive, 8);
  world.run(policy, 500);
  CHECK(world.last[0] <= 2);
  world.chances = alike(1, 0.95);
  world.run(policy, 256 * 12);
  CHECK(world.last[0] >= 7);
}

TEST_CASE("the rows go to the sequences whose drafts survive") {
  World world{cpu_ms, alike(4, 0.05)};
  world.chances[2] = std::vector<double>(16, 0.95);
  DraftPolicy policy(DraftMode::kAdaptive, 8);
  world.run(policy, 1000);
  CHECK(world.last[2] >= 6);
  for (const size_t i : {size_t{0}, size_t{1}, size_t{3}}) CHECK(world.last[i] <= 2);
  // a budget of rows is kept, whoever wants them
  world.rows = 3;
  world.chances = alike(4, 0.95);
  for (int i = 0; i < 400; ++i) {
    world.run(policy, 1);
    REQUIRE(world.last[0] + world.last[1] + world.last[2] + world.last[3] <= 3);
  }
  CHECK(world.last[0] + world.last[1] + world.last[2] + world.last[3] == 3);
}

TEST_CASE("fixed widths are what the rows allow, off is zero, and a request may have none") {
  Acceptance a, b, c;
  const std::vector<DraftPolicy::Candidate> three = {{&a, 8}, {&b, 0}, {&c, 3}};
  CHECK(DraftPolicy(DraftMode::kFixed, 6).choose(three, 100) == std::vector<int32_t>{6, 0, 3});
  CHECK(DraftPolicy(DraftMode::kFixed, 6).choose(three, 6) == std::vector<int32_t>{2, 0, 2});
  CHECK(DraftPolicy(DraftMode::kFixed, 6).choose(three, 2) == std::vector<int32_t>{0, 0, 0});
  CHECK(DraftPolicy(DraftMode::kOff, 6).choose(three, 100) == std::vector<int32_t>{0, 0, 0});
  DraftPolicy adaptive(DraftMode::kAdaptive, 6);
  for (int i = 0; i < 200; ++i) CHECK(adaptive.choose(three, 100)[1] == 0);
}

TEST_CASE("step times: between measurements by line, beyond them as before, drifting together") {
  StepTimes times;
  CHECK(times.of(5) == 1);
  times.record(1, 10);
  CHECK(times.of(1) == Approx(10));
  CHECK(times.of(9) == Approx(10));  // never tried
  times.record(5, 14);
  CHECK(times.of(3) == Approx(12));
  CHECK(times.of(8) == Approx(17));
  times.record(100, 7);  // a larger step is no faster
  CHECK(times.of(50) >= 14);
  StepTimes drifting;
  drifting.record(1, 10), drifting.record(5, 15);
  for (int i = 0; i < 400; ++i) drifting.record(5, 30);  // contexts grew; one row was not measured again
  CHECK(drifting.of(5) == Approx(30).epsilon(0.02));
  CHECK(drifting.of(1) > 11);
  CHECK(drifting.of(1) < 25);
  StepTimes hiccup;
  for (int i = 0; i < 50; ++i) hiccup.record(1, 10);
  hiccup.record(1, 1000);
  CHECK(hiccup.of(1) < 11.5);
}
