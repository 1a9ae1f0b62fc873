#include "engine/request/sequence.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("only the moves of the table are allowed") {
  using S = SequenceState;
  const std::vector<std::pair<S, S>> allowed{
      {S::kWaiting, S::kPrefilling},   {S::kWaiting, S::kFinished},     {S::kPrefilling, S::kRunning},
      {S::kPrefilling, S::kPreempted}, {S::kPrefilling, S::kFinished},  {S::kRunning, S::kPreempted},
      {S::kRunning, S::kFinished},     {S::kPreempted, S::kPrefilling}, {S::kPreempted, S::kFinished}};
  int count = 0;
  for (int from = 0; from < 5; ++from)
    for (int to = 0; to < 5; ++to) {
      const auto move = std::pair(static_cast<S>(from), static_cast<S>(to));
      const bool expected = std::find(allowed.begin(), allowed.end(), move) != allowed.end();
      INFO(state_name(move.first) << " -> " << state_name(move.second));
      REQUIRE(move_allowed(move.first, move.second) == expected);
      count += expected;
    }
  REQUIRE(count == 9);
}

TEST_CASE("order is priority, then arrival, then choice") {
  const auto make = [](int32_t priority, uint64_t arrival, int32_t choice) {
    auto request = std::make_shared<Request>();
    request->prompt = {1};
    request->priority = priority;
    return Sequence(request, choice, arrival);
  };
  const Sequence urgent = make(-1, 9, 0), first = make(0, 1, 0), fork = make(0, 1, 1), second = make(0, 2, 0);
  REQUIRE(urgent.before(first));
  REQUIRE(first.before(fork));
  REQUIRE(fork.before(second));
  REQUIRE(!second.before(fork));
  REQUIRE(!first.before(first));
}
