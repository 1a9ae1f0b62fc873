#include <cmath>

#include "engine/spec/synthetic_acceptance.h"
#include "engine/spec/verifier.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

SyntheticAcceptance acceptance(const std::string& text, int32_t drafts) { return SyntheticAcceptance::parse(text, drafts).value(); }

std::string refusal(const std::string& text, int32_t drafts) {
  const auto result = SyntheticAcceptance::parse(text, drafts);
  return result.ok() ? std::string() : result.error().message;
}

std::vector<SampledToken> drawn(const std::vector<int32_t>& tokens) {
  std::vector<SampledToken> all(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) all[i].token = tokens[i];
  return all;
}

}  // namespace

TEST_CASE("an acceptance length is that of a full round; narrower ones are cut off") {
  for (const double length : {1.0, 1.5, 2.0, 3.5, 5.0, 7.9, 8.0}) {
    const SyntheticAcceptance a = acceptance(std::to_string(length), 7);
    REQUIRE(a.rates().size() == 1);
    const double p = a.rates()[0];
    CHECK(a.length(7) == Approx(length).epsilon(1e-6));
    CHECK(a.length(3) == Approx(1 + p + p * p + p * p * p));
    CHECK(a.length(0) == 1);
  }
  // (1 - p^8) / (1 - p) = 2: with p = 0.502, 0.99597 / 0.498 = 2.0000
  CHECK(acceptance("2", 7).rates()[0] == Approx(0.502).margin(0.0002));
}

TEST_CASE("what is drawn has the length asked for, and depends on seed, choice and position alone") {
  for (const auto& [text, drafts] : {std::pair<std::string, int32_t>{"3.5", 7}, {"1.7", 4}, {"0.9,0.5,0.25", 5}}) {
    const SyntheticAcceptance a = acceptance(text, drafts);
    constexpr int32_t kRounds = 40000;
    double sum = 0, squares = 0;
    for (int32_t round = 0; round < kRounds; ++round) {
      const int32_t accepted = a.accepted(static_cast<uint64_t>(round % 50), round % 3, round / 50, drafts);
      REQUIRE(accepted >= 0);
      REQUIRE(accepted <= drafts);
      REQUIRE(a.accepted(static_cast<uint64_t>(round % 50), round % 3, round / 50, drafts) == accepted);
      // a narrower round is the same chance, cut off
      REQUIRE(a.accepted(static_cast<uint64_t>(round % 50), round % 3, round / 50, 2) == std::min(accepted, 2));
      sum += 1 + accepted;
      squares += (1.0 + accepted) * (1.0 + accepted);
    }
    const double mean = sum / kRounds, error = std::sqrt((squares / kRounds - mean * mean) / kRounds);
    CHECK(std::fabs(mean - a.length(drafts)) < 4 * error);
  }
  const SyntheticAcceptance half = acceptance("0.5,0.5", 2);
  int32_t different = 0;
  for (int32_t position = 0; position < 100; ++position) different += half.accepted(1, 0, position, 2) != half.accepted(2, 0, position, 2);
  CHECK(different > 20);
}

TEST_CASE("rates: one for each draft, the last for all behind it") {
  const SyntheticAcceptance a = acceptance("1,0.5,0", 7);
  CHECK(a.length(7) == Approx(1 + 1 + 0.5));
  CHECK(acceptance("1,1", 7).length(7) == Approx(8));
  CHECK(acceptance("1,1", 7).accepted(3, 0, 9, 7) == 7);
  CHECK(acceptance("0,1", 7).accepted(3, 0, 9, 7) == 0);
}

TEST_CASE("synthetic acceptance: what is impossible is refused with the bounds") {
  CHECK(refusal("8.1", 7).find("outside of 1 to 8") != std::string::npos);
  CHECK(refusal("0.5", 7).find("outside of 1 to 8") != std::string::npos);
  CHECK(refusal("0.5,1.5", 7).find("outside of 0 to 1") != std::string::npos);
  for (const char* text : {"", "x", "3x", "0.5,", ",0.5", "nan", "inf", "1e400"})
    CHECK(refusal(text, 7).find("neither an acceptance length") != std::string::npos);
  CHECK(!refusal(std::string(10000, '1') + ",1", 7).empty());
  std::string many = "0.5";
  for (int i = 0; i < 200; ++i) many += ",0.5";
  CHECK(!refusal(many, 7).empty());
}

TEST_CASE("a synthetic verdict: the first drafts stand whatever was drawn, then what was drawn") {
  struct Case {
    std::vector<int32_t> drafts, drawn;
    int32_t accepted;
    std::vector<int32_t> stops;
    int32_t remaining;
    std::vector<int32_t> emitted;
    int32_t stood;
    DoneReason done;
  };
  const std::vector<Case> cases{
      {{5, 6}, {1, 2, 3}, 0, {}, 9, {1}, 0, DoneReason::kNone},
      {{5, 6}, {1, 2, 3}, 1, {}, 9, {5, 2}, 1, DoneReason::kNone},
      {{5, 6}, {1, 2, 3}, 2, {}, 9, {5, 6, 3}, 2, DoneReason::kNone},
      {{5, 6}, {5, 6, 7}, 0, {}, 9, {5}, 0, DoneReason::kNone},       // right, and refused all the same
      {{5, 6}, {1, 2, 3}, 2, {6}, 9, {5, 6}, 2, DoneReason::kStopId},
      {{5, 6}, {1, 2, 3}, 2, {}, 2, {5, 6}, 2, DoneReason::kLength},
      {{}, {1}, 3, {}, 9, {1}, 0, DoneReason::kNone},
  };
  for (const Case& c : cases) {
    auto rows = drawn(c.drawn);
    const Verdict verdict = verify_synthetic(c.drafts, rows, c.accepted, c.stops, c.remaining);
    REQUIRE(verdict.emitted == static_cast<int32_t>(c.emitted.size()));
    for (size_t i = 0; i < c.emitted.size(); ++i) CHECK(rows[i].token == c.emitted[i]);
    CHECK(verdict.accepted == c.stood);
    CHECK(verdict.done == c.done);
  }
  auto rows = drawn({1, 2, 3});
  rows[0].non_finite = true;
  CHECK(verify_synthetic(std::vector<int32_t>{5, 6}, rows, 2, {}, 9).done == DoneReason::kNonFinite);
}
