// Widths against what they should be for known devices and drafters: the exhaustive best, and the cost of staying at zero.
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <set>

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
      policy.record_step(static_cast<int32_t>(widths.size()), total, step);
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

TEST_CASE("short answers of a new kind lose no more than 2 % to what earlier ones made them expect") {
  // Long predictable texts, then answers of 128 tokens whose drafts are nearly always refused; results come three steps late.
  DraftPolicy policy(DraftMode::kAdaptive, 4);
  World before{cpu_ms, alike(1, 0.95), 4};
  before.run(policy, 2000);
  double time = 0, plain = 0;
  std::mt19937 rng(3);
  for (int answer = 0; answer < 40; ++answer) {
    Acceptance own = policy.fresh();
    std::deque<std::pair<int32_t, int32_t>> late;
    for (int32_t tokens = 0; tokens < 128;) {
      const std::vector<DraftPolicy::Candidate> one = {{&own, 4}};
      const int32_t width = policy.choose(one, 100)[0];
      int32_t accepted = 0;
      while (accepted < width && rng() % 100 < 3) ++accepted;
      late.emplace_back(width, accepted);
      if (late.size() > 3) {
        if (late.front().first > 0) policy.record_span(late.front().first, late.front().second, false, &own);
        late.pop_front();
      }
      policy.record_step(1, 1 + width, cpu_ms(1 + width));
      time += cpu_ms(1 + width);
      for (int32_t k = 0; k <= accepted && tokens < 128; ++k) ++tokens, plain += cpu_ms(1);
    }
  }
  INFO("time " << time << " ms, without drafts " << plain);
  CHECK(time < 1.02 * plain);
}

TEST_CASE("a first step that also loaded kernels or captured a graph is not believed") {
  // The device is slow the first time that it meets a number of rows, and pads rows to multiples of eight.
  std::set<int32_t> met;
  const auto padded = [](int32_t rows) { return (rows + 7) / 8 * 8; };
  const auto ms = [&](int32_t rows) {
    const double time = 4.0 + 0.2 * padded(rows);
    return met.insert(padded(rows)).second ? 6 * time : time;
  };
  for (const double chance : {0.02, 0.9}) {
    met.clear();
    World world{ms, alike(16, chance)};
    DraftPolicy policy(DraftMode::kAdaptive, 4);
    world.most = 4;
    world.run(policy, 300);
    world.forget();
    world.run(policy, 2000);
    double best = 0;
    for (int32_t w = 0; w <= 4; ++w) best = std::max(best, world.rate_at(w));
    INFO("chance " << chance << ", rate " << world.rate() << ", best " << best << ", plain " << world.rate_at(0));
    CHECK(world.rate() > 0.93 * best);
    CHECK(world.rate() > 0.98 * world.rate_at(0));
  }
}

TEST_CASE("fixed widths are what the rows allow, off is zero, and a request may have none") {
  Acceptance a, b, c;
  const std::vector<DraftPolicy::Candidate> three = {{&a, 8}, {&b, 0}, {&c, 3}};
  CHECK(DraftPolicy(DraftMode::kFixed, 6).choose(three, 100) == std::vector<int32_t>{6, 0, 3});
  CHECK(DraftPolicy(DraftMode::kFixed, 6).choose(three, 6) == std::vector<int32_t>{2, 0, 2});
  CHECK(DraftPolicy(DraftMode::kFixed, 6).choose(three, 2) == std::vector<int32_t>{0, 0, 0});
  CHECK(DraftPolicy(DraftMode::kFixed, 0).choose(three, 100) == std::vector<int32_t>{0, 0, 0});
  DraftPolicy adaptive(DraftMode::kAdaptive, 6);
  CHECK(adaptive.choose(three, 100) == std::vector<int32_t>{0, 0, 0});  // nothing is timed yet
  adaptive.record_step(3, 3, 10);
  a.share.fill(0.9f), c.share.fill(0.9f), b.share.fill(0.9f);
  a.seen.fill(9), c.seen.fill(9), b.seen.fill(9);
  CHECK(adaptive.choose(three, 100) == std::vector<int32_t>{6, 0, 3});
  Acceptance unknown = adaptive.fresh();
  unknown.share.fill(0.9f);
  adaptive.record_step(1, 1, 10);
  const std::vector<DraftPolicy::Candidate> one = {{&unknown, 6}};
  CHECK(adaptive.choose(one, 100)[0] == 2);  // until it has shown something
}

TEST_CASE("step times: from the plain step by line, beyond the last as up to it, drifting together") {
  StepTimes times;
  CHECK_FALSE(times.knows(1));
  times.record(1, 1, 10);
  CHECK(times.knows(1));
  CHECK_FALSE(times.knows(5));
  CHECK(times.of(1, 1) == Approx(10));
  CHECK(times.of(1, 7) == Approx(10));  // never tried
  times.record(1, 5, 14);
  CHECK_FALSE(times.knows(5));  // that was one sequence with drafts
  CHECK(times.of(1, 3) == Approx(12));
  CHECK(times.of(1, 8) == Approx(17));
  times.record(1, 100, 7);  // a larger step is no faster
  CHECK(times.of(1, 50) >= 14);
  times.record(4, 4, 11);
  CHECK(times.of(4, 5) == Approx(14));
  StepTimes padded;
  padded.record(16, 16, 10);
  padded.record(16, 17, 13);  // classes: 17 and 18 are one
  CHECK(padded.of(16, 17) == Approx(13));
  StepTimes first;
  for (const double ms : {60.0, 10.0, 11.0}) first.record(1, 1, ms);
  CHECK(first.of(1, 1) == Approx(10));
  StepTimes drifting;
  drifting.record(1, 1, 10), drifting.record(1, 5, 15);
  for (int i = 0; i < 400; ++i) drifting.record(1, 5, 30);  // contexts grew; a plain step was not measured again
  CHECK(drifting.of(1, 5) == Approx(30).epsilon(0.02));
  CHECK(drifting.of(1, 1) > 10.5);
  CHECK(drifting.of(1, 1) < 25);
  StepTimes hiccup;
  for (int i = 0; i < 50; ++i) hiccup.record(1, 1, 10);
  hiccup.record(1, 1, 1000);
  CHECK(hiccup.of(1, 1) < 11.5);
}
