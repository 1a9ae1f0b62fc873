#include "engine/spec/ngram_drafter.h"
#include "engine/spec/oracle_drafter.h"
#include "engine/spec/random_drafter.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

std::vector<int32_t> propose(Drafter& drafter, const std::vector<int32_t>& history, int32_t max_tokens) {
  const DraftRequest request{0, history, max_tokens};
  std::vector<std::vector<int32_t>> drafts(1);
  drafter.propose({&request, 1}, &drafts);
  return drafts[0];
}

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("n-gram: what followed the longest earlier match, the latest of equals") {
  NgramDrafter drafter(1, 3);
  REQUIRE(propose(drafter, {1, 2, 3, 4, 1, 2}, 4) == Ids{3, 4, 1, 2});
  REQUIRE(propose(drafter, {1, 2, 3, 4, 1, 2}, 1) == Ids{3});
  REQUIRE(propose(drafter, {1, 2, 3, 4}, 4).empty());
  REQUIRE(propose(drafter, {7, 8, 7, 9, 7}, 2) == Ids{9, 7});        // latest
  REQUIRE(propose(drafter, {1, 7, 5, 2, 7, 6, 1, 7}, 1) == Ids{5});  // longer beats later
  REQUIRE(propose(drafter, {4, 4, 4}, 3) == Ids{4});
  REQUIRE(propose(drafter, {4}, 3).empty());
  NgramDrafter strict(2, 3);
  REQUIRE(propose(strict, {7, 8, 7}, 2).empty());
  REQUIRE(propose(strict, {7, 8, 9, 7, 8}, 2) == Ids{9, 7});
  NgramDrafter near(1, 2, 3);
  REQUIRE(propose(near, {5, 6, 1, 2, 5}, 2).empty());  // outside the window
}

TEST_CASE("oracle: the future, wrong where it was told") {
  OracleDrafter drafter([](std::span<const int32_t> h) { return h.size() < 6 ? static_cast<int32_t>(h.size()) : -1; },
                        [](int32_t position) { return position == 3; }, 100);
  REQUIRE(propose(drafter, {9, 9}, 8) == Ids{2, 4, 4, 5});
  REQUIRE(propose(drafter, {9, 9}, 2) == Ids{2, 4});
}

TEST_CASE("random: a function of seed and history, within the bounds") {
  RandomDrafter a(1, 10), b(1, 10), c(2, 10);
  int differs = 0, longest = 0;
  for (int32_t length = 1; length < 60; ++length) {
    const Ids history(static_cast<size_t>(length), 3);
    const Ids draft = propose(a, history, 4);
    REQUIRE(draft == propose(b, history, 4));
    differs += draft != propose(c, history, 4);
    longest = std::max(longest, static_cast<int>(draft.size()));
    for (int32_t token : draft) REQUIRE((token >= 0 && token < 10));
  }
  REQUIRE(longest == 4);
  REQUIRE(differs > 30);
}
