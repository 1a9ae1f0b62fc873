#include "engine/spec/verifier.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

std::vector<SampledToken> drawn(const std::vector<int32_t>& tokens) {
  std::vector<SampledToken> all;
  for (int32_t token : tokens) {
    SampledToken one;
    one.token = token;
    one.non_finite = token < 0;
    all.push_back(one);
  }
  return all;
}

Verdict judge(std::vector<int32_t> drafts, const std::vector<int32_t>& tokens, std::vector<int32_t> stops, int32_t remaining) {
  const auto rows = drawn(tokens);
  return verify(drafts, rows, stops, remaining);
}

}  // namespace

TEST_CASE("a draft stands iff it equals the token drawn from the row before") {
  struct Case {
    std::vector<int32_t> drafts, drawn, stops;
    int32_t remaining, emitted, accepted;
    DoneReason done;
  };
  const std::vector<Case> cases{
      {{}, {5}, {}, 9, 1, 0, DoneReason::kNone},
      {{5, 6}, {5, 6, 7}, {}, 9, 3, 2, DoneReason::kNone},       // all, and one more
      {{5, 9}, {5, 6, 7}, {}, 9, 2, 1, DoneReason::kNone},       // the wrong one is replaced
      {{9, 6}, {5, 6, 7}, {}, 9, 1, 0, DoneReason::kNone},       // a later agreement does not count
      {{5, 6}, {5, 6, 7}, {5}, 9, 1, 1, DoneReason::kStopId},    // stop inside the block
      {{5, 6}, {5, 6, 7}, {7}, 9, 3, 2, DoneReason::kStopId},
      {{5, 6}, {5, 6, 7}, {}, 2, 2, 2, DoneReason::kLength},     // budget inside the block
      {{5}, {5, 6}, {6}, 2, 2, 1, DoneReason::kStopId},          // a stop at the budget is a stop
      {{}, {-1}, {}, 9, 0, 0, DoneReason::kNonFinite},
      {{5}, {5, -1}, {}, 9, 1, 1, DoneReason::kNonFinite},
      {{9}, {5, -1}, {}, 9, 1, 0, DoneReason::kNone},            // a row that plain decoding never runs
  };
  for (const Case& c : cases) {
    const Verdict verdict = judge(c.drafts, c.drawn, c.stops, c.remaining);
    INFO("case " << (&c - cases.data()));
    REQUIRE(verdict.emitted == c.emitted);
    REQUIRE(verdict.accepted == c.accepted);
    REQUIRE(verdict.done == c.done);
  }
}
