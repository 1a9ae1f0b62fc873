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

TEST_CASE("with drafts: plain steps, then steps of full drafts of any number of sequences, rows held to the largest step") {
  const auto keys = usual_graphs({.slots = 30, .max_rows = 152, .context = 1024, .drafts = 4, .draft_span_rows = 17});
  std::set<StepKey> plain, verify;
  std::set<bool> plain_drafts;
  for (const StepKey& key : keys) {
    if (key.span_rows == 1) plain_drafts.insert(key.drafts);  // a step that drafts nothing for the next is a step of its own
    else CHECK(key.drafts);
    if (key.span_rows != 4) (key.span_rows == 1 ? plain : verify).insert(key.of_forward());
  }
  CHECK(plain_drafts.size() == 2);
  CHECK(plain.size() == 7);
  // as CudaExecutor::lay_out pads a step of so many sequences: 100 rows of 20 sequences are 104, of 24 spans
  for (int32_t running = 1; running <= 30; ++running)
    CHECK(verify.contains({padded_rows(5 * running), padded_rows(running), 17, 1024, CommitVariant::kGreedy, false}));
  CHECK(verify.contains({104, 24, 17, 1024, CommitVariant::kGreedy, false}));
  CHECK(verify.size() < 31);
  const auto held = usual_graphs({.slots = 4, .max_rows = 16, .context = 1024, .drafts = 4, .draft_span_rows = 17});
  for (const StepKey& key : held) CHECK(key.rows <= 16);
}

TEST_CASE("however many sequences and tokens, the usual graphs are few, and the short contexts are among them") {
  std::set<StepKey> forwards, commits;
  for (const StepKey& key : usual_graphs({.slots = 4096, .max_rows = 20480, .context = 131072, .drafts = 4, .draft_span_rows = 17})) {
    forwards.insert(key.of_forward());
    commits.insert(key.of_commit());
  }
  CHECK(forwards.size() <= kUsualGraphs);
  CHECK(commits.size() <= kUsualGraphs);
  CHECK(forwards.size() + commits.size() > kUsualGraphs);
  CHECK(forwards.contains({256, 256, 1, 1024, CommitVariant::kGreedy, false}));
}
