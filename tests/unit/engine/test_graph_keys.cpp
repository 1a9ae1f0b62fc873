// Which graphs are captured before the first step: every padded row count and context, each half once.
#include "engine/run/graph_keys.h"

#include <map>
#include <set>

#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("rows and contexts are padded to few values") {
  const std::map<int32_t, int32_t> rows = {{1, 1}, {2, 2}, {3, 4}, {5, 8}, {8, 8}, {9, 16}, {17, 24}, {250, 256}};
  for (const auto& [from, to] : rows) CHECK(padded_rows(from) == to);
  CHECK(padded_context(1, 40960) == 1024);
  CHECK(padded_context(1025, 40960) == 2048);
  CHECK(padded_context(33000, 40960) == 40960);
  CHECK(padded_context(5, 512) == 512);
}

TEST_CASE("every decode step of one row a span has its graphs") {
  const auto keys = usual_graphs({.slots = 50, .max_rows = 56, .context = 5000});
  std::set<StepKey> forwards, commits;
  for (const StepKey& key : keys) {
    forwards.insert(key.of_forward());
    commits.insert(key.of_commit());
    CHECK(key.span_rows == 1);
    CHECK_FALSE(key.drafts);
  }
  for (int32_t running = 1; running <= 50; ++running)
    for (const int32_t context : {1, 1024, 1500, 4000, 4999}) {
      StepKey step;
      step.rows = step.spans = padded_rows(running);
      step.span_rows = 1;
      step.context = padded_context(context, 5000);
      for (const CommitVariant commit : {CommitVariant::kGreedy, CommitVariant::kSampled}) {
        step.commit = commit;
        CHECK(forwards.contains(step.of_forward()));
        CHECK(commits.contains(step.of_commit()));
      }
    }
  const size_t row_counts = 10;  // 1, 2, 4, 8, 16, 24, 32, 40, 48, 56
  CHECK(forwards.size() == row_counts * 4);
  CHECK(commits.size() == row_counts * 2);
  // short contexts first, few rows first
  CHECK(keys.front().rows == 1);
  CHECK(keys.front().context == 1024);
  CHECK(keys.back().context == 5000);
}

TEST_CASE("with drafts: plain steps, then steps of full drafts, rows held to the largest step") {
  const auto keys = usual_graphs({.slots = 4, .max_rows = 16, .context = 1024, .drafts = 4, .draft_span_rows = 17});
  std::set<StepKey> plain, verify;
  for (const StepKey& key : keys) {
    CHECK(key.drafts);
    (key.span_rows == 1 ? plain : verify).insert(key.of_forward());
  }
  CHECK(plain.size() == 3);
  CHECK(verify.size() == 3);
  CHECK(verify.contains({8, 1, 17, 1024, CommitVariant::kGreedy, false}));
  CHECK(verify.contains({16, 4, 17, 1024, CommitVariant::kGreedy, false}));
}
