#include "engine/schedule/chunk_budget.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("nobody decodes or no budget: the whole step") {
  REQUIRE(ChunkBudget(50, 512).prefill_rows(0) == 512);
  REQUIRE(ChunkBudget(0, 512).prefill_rows(4) == 512);
}

TEST_CASE("chunks follow the measured time per row") {
  ChunkBudget budget(50, 512);
  REQUIRE(budget.prefill_rows(1) == 32);  // nothing measured yet
  for (int i = 0; i < 50; ++i) budget.record(4, 0, 10.0);
  for (int i = 0; i < 50; ++i) budget.record(4, 100, 60.0);  // 10 ms decode, 0.5 ms a row
  REQUIRE(budget.row_ms() == Approx(0.5).epsilon(0.01));
  REQUIRE(budget.prefill_rows(4) == 80);  // (50 - 10) / 0.5
  for (int i = 0; i < 100; ++i) budget.record(4, 100, 1010.0);  // a slow phase
  REQUIRE(budget.prefill_rows(4) == 8);   // never nothing
  for (int i = 0; i < 100; ++i) budget.record(4, 500, 11.0);
  REQUIRE(budget.prefill_rows(4) == 512);
}
