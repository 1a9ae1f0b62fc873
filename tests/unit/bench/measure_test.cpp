// Figures from samples whose answers were worked out by hand.
#include "server/bench/measure.h"
#include "server/bench/prompts.h"
#include "tests/catch.h"

using namespace slipstream::bench;

TEST_CASE("percentiles interpolate between ranks") {
  // numpy.percentile([1, 2, 4, 8], [50, 90, 95, 99]) = 3, 6.8, 7.4, 7.88
  const Spread s = spread_of({8, 1, 4, 2});
  CHECK(s.count == 4);
  CHECK(s.mean == 3.75);
  CHECK(s.p50 == Approx(3.0));
  CHECK(s.p90 == Approx(6.8));
  CHECK(s.p95 == Approx(7.4));
  CHECK(s.p99 == Approx(7.88));
  CHECK(s.max == 8);
  CHECK(spread_of({}).count == 0);
  CHECK(spread_of({5}).p99 == 5);
}

TEST_CASE("TPOT leaves the first token out, throughput counts all") {
  Sample five, one;
  five.ttft_ms = 100;
  five.e2e_ms = 300;
  five.output_tokens = 5;
  five.prompt_tokens = 10;
  five.gaps_ms = {80, 120};  // three pieces: two of them held two tokens
  five.tokens_from_usage = true;
  one.ttft_ms = one.e2e_ms = 50;
  one.output_tokens = 1;
  one.prompt_tokens = 10;
  one.tokens_from_usage = true;
  const Summary s = summarise(2, 0.5, {five, one}, {"a", "b", "a"});
  CHECK(s.tpot_ms.count == 1);
  CHECK(s.tpot_ms.p50 == Approx(50));  // (300 - 100) / 4
  CHECK(s.itl_ms.p50 == Approx(100));
  CHECK(s.output_tokens_per_s == Approx(12));
  CHECK(s.total_tokens_per_s == Approx(52));
  CHECK(s.requests_per_s == Approx(4));
  CHECK(s.ok == 2);
  CHECK(s.failed == 3);
  CHECK(s.errors == std::vector<std::string>{"a", "b"});
}

TEST_CASE("gaps beside a long prompt are those that overlap its reading") {
  Sample sample;
  sample.start_ms = 100;
  sample.ttft_ms = 10;                    // pieces at 110, 130, 180, 181
  sample.gaps_ms = {20, 50, 1};
  CHECK(gaps_within({sample}, {}).empty());
  CHECK(gaps_within({sample}, {{0, 110}}).empty());
  CHECK(gaps_within({sample}, {{0, 111}}) == std::vector<double>{20});
  CHECK(gaps_within({sample}, {{140, 150}}) == std::vector<double>{50});
  CHECK(gaps_within({sample}, {{120, 140}, {125, 131}}) == std::vector<double>{20, 50});
  CHECK(gaps_within({sample, sample}, {{180.5, 900}}) == std::vector<double>{1, 1});
}

TEST_CASE("prompts differ by request, not by run") {
  CHECK(prompt_text(3, 100, 1) == prompt_text(3, 100, 1));
  CHECK(prompt_text(3, 100, 1) != prompt_text(4, 100, 1));
  CHECK(prompt_text(3, 100, 1) != prompt_text(3, 100, 2));
  CHECK(prompt_text(3, 0, 1) != prompt_text(11, 0, 1));  // the same question, another number
  const std::string text = prompt_text(0, 7, 1);
  CHECK(std::count(text.begin(), text.end(), ' ') == 7);
}
