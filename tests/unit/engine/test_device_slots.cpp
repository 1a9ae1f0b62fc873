#include "engine/run/device_slots.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

using Ids = std::vector<int32_t>;

DeviceShape shape() { return {2, 1, 4, 16, 3}; }

OpenSlot opening(int32_t slot, uint32_t generation, Ids history, int32_t max_tokens) {
  OpenSlot open;
  open.slot = slot;
  open.generation = generation;
  open.prompt_tokens = static_cast<int32_t>(history.size());
  open.history = std::move(history);
  open.remaining_tokens = max_tokens;
  open.sampling.max_tokens = max_tokens;
  return open;
}

StepPlan plan_of(Span span) {
  StepPlan plan;
  plan.spans = {std::move(span)};
  return plan;
}

Span span_of(SpanKind kind, int32_t start, int32_t rows, LogitsWanted logits, int32_t drafts_next = 0) {
  Span span;
  span.slot = 0;
  span.generation = 1;
  span.kind = kind;
  span.start = start;
  span.rows = rows;
  span.logits = logits;
  span.draft_rows_next = drafts_next;
  return span;
}

std::vector<SampledToken> drawn(const Ids& tokens) {
  std::vector<SampledToken> all(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) all[i].token = tokens[i];
  return all;
}

/// Slot 0 prefilled with {1, 2, 3} and its first token 4 drawn.
DeviceSlots prefilled(int32_t max_tokens, int32_t drafts_next, SamplingParams sampling = {}) {
  DeviceSlots slots(shape());
  OpenSlot open = opening(0, 1, {1, 2, 3}, max_tokens);
  sampling.max_tokens = max_tokens;
  open.sampling = sampling;
  slots.open(open);
  slots.grant({0, 0, {5, 6}});
  const StepPlan plan = plan_of(span_of(SpanKind::kPrefill, 0, 3, LogitsWanted::kLast, drafts_next));
  slots.place(plan);
  slots.settle(plan, drawn({4}));
  return slots;
}

}  // namespace

TEST_CASE("a prefill chunk gives its rows, the last one a logit row") {
  DeviceSlots slots(shape());
  slots.open(opening(0, 1, {10, 11, 12, 13, 14}, 4));
  slots.grant({0, 0, {3, 7}});
  StepPlan plan = plan_of(span_of(SpanKind::kPrefill, 0, 3, LogitsWanted::kNone));
  const StepInputs& first = slots.place(plan);
  REQUIRE(first.rows == 3);
  REQUIRE(first.logit_rows.empty());
  REQUIRE(Ids(first.token_ids, first.token_ids + 3) == Ids{10, 11, 12});
  REQUIRE(slots.settle(plan, {}).spans[0].emitted.empty());
  plan = plan_of(span_of(SpanKind::kPrefill, 3, 2, LogitsWanted::kLast));
  const StepInputs& second = slots.place(plan);
  REQUIRE(Ids(second.token_ids, second.token_ids + 2) == Ids{13, 14});
  REQUIRE(Ids(second.positions, second.positions + 2) == Ids{3, 4});
  REQUIRE(second.spans[0].context == 3);
  REQUIRE(second.spans[0].block_tables[0][1] == 7);
  REQUIRE(Ids(second.logit_rows.begin(), second.logit_rows.end()) == Ids{1});
  const StepResult result = slots.settle(plan, drawn({20}));
  REQUIRE(result.spans[0].emitted == Ids{20});
}

TEST_CASE("verification keeps the agreeing drafts and their histories reach the sampler") {
  SamplingParams sampling;
  sampling.stop_ids = {99};
  sampling.min_tokens = 3;
  DeviceSlots slots = prefilled(10, 3, sampling);
  REQUIRE(slots.draft_requests().size() == 1);
  REQUIRE(Ids(slots.draft_requests()[0].history.begin(), slots.draft_requests()[0].history.end()) == Ids{1, 2, 3, 4});
  const std::vector<Ids> drafts{{5, 6, 7, 8}};  // one more than asked for
  slots.keep_drafts(drafts);
  const StepPlan plan = plan_of(span_of(SpanKind::kVerify, 3, 4, LogitsWanted::kAll));
  const StepInputs& inputs = slots.place(plan);
  REQUIRE(inputs.rows == 4);
  REQUIRE(Ids(inputs.token_ids, inputs.token_ids + 4) == Ids{4, 5, 6, 7});
  REQUIRE(Ids(inputs.positions, inputs.positions + 4) == Ids{3, 4, 5, 6});
  const auto rows = slots.sample_rows(plan, {});
  REQUIRE(rows.size() == 4);
  for (int32_t i = 0; i < 4; ++i) {
    const SampleRow& row = rows[static_cast<size_t>(i)];
    REQUIRE(row.position == 4 + i);
    REQUIRE(Ids(row.prompt_tokens.begin(), row.prompt_tokens.end()) == Ids{1, 2, 3});
    Ids output{4, 5, 6, 7};
    output.resize(static_cast<size_t>(1 + i));
    REQUIRE(Ids(row.output_tokens.begin(), row.output_tokens.end()) == output);
    // Tokens 2 and 3 may not be a stop id; the fourth may.
    REQUIRE(row.suppressed.size() == (i < 2 ? 1u : 0u));
  }
  const StepResult result = slots.settle(plan, drawn({5, 6, 50, 51}));
  REQUIRE(result.spans[0].emitted == Ids{5, 6, 50});
  REQUIRE(result.spans[0].drafted == 3);
  REQUIRE(result.spans[0].accepted == 2);
  REQUIRE(Ids(slots.history(0).begin(), slots.history(0).end()) == Ids{1, 2, 3, 4, 5, 6, 50});
  // Old drafts are gone: the next verify span is a single row at the new end.
  const StepInputs& next = slots.place(plan);
  REQUIRE(next.rows == 1);
  REQUIRE(next.token_ids[0] == 50);
  REQUIRE(next.positions[0] == 6);
}

TEST_CASE("the rows that stand after a step: prompts whole, of a verify span the anchor and what was accepted") {
  DeviceSlots slots(shape());
  slots.open(opening(0, 1, {1, 2, 3}, 9));
  slots.grant({0, 0, {5, 6}});
  StepPlan plan = plan_of(span_of(SpanKind::kPrefill, 0, 3, LogitsWanted::kLast, 3));
  slots.place(plan);
  StepResult result = slots.settle(plan, drawn({4}));
  const StandingRows& prompt = slots.standing(plan, result);
  CHECK(prompt.step.rows == 3);
  CHECK(Ids(prompt.rows.begin(), prompt.rows.end()) == Ids{0, 1, 2});
  REQUIRE(prompt.spans.size() == 1);
  CHECK(prompt.spans[0].slot == 0);
  CHECK(prompt.spans[0].generation == 1);
  CHECK(prompt.spans[0].drafts_due);
  CHECK(Ids(prompt.step.positions, prompt.step.positions + 3) == Ids{0, 1, 2});
  REQUIRE(slots.draft_requests().size() == 1);
  CHECK(slots.draft_requests()[0].blocks == 2);
  CHECK(slots.draft_requests()[0].block_tables[0][1] == 6);

  // Two of three drafts agree; beside it another slot's prompt begins.
  slots.keep_drafts(std::vector<Ids>{{10, 11, 12}});
  slots.open(opening(1, 7, {20, 21}, 9));
  slots.grant({1, 0, {8}});
  Span other = span_of(SpanKind::kPrefill, 0, 2, LogitsWanted::kNone);
  other.slot = 1;
  other.generation = 7;
  plan = plan_of(span_of(SpanKind::kVerify, 3, 4, LogitsWanted::kAll));
  plan.spans.push_back(other);
  slots.place(plan);
  result = slots.settle(plan, drawn({10, 11, 40, 41}));
  REQUIRE(result.spans[0].accepted == 2);
  const StandingRows& mixed = slots.standing(plan, result);
  CHECK(mixed.step.rows == 5);
  CHECK(mixed.step.groups == 1);
  CHECK(Ids(mixed.rows.begin(), mixed.rows.end()) == Ids{0, 1, 2, 4, 5});
  CHECK(Ids(mixed.step.positions, mixed.step.positions + 5) == Ids{3, 4, 5, 0, 1});
  REQUIRE(mixed.spans.size() == 2);
  CHECK_FALSE(mixed.spans[0].drafts_due);
  CHECK(mixed.spans[1].slot == 1);
  CHECK(mixed.spans[1].generation == 7);
  CHECK(mixed.step.spans[0].first_row == 0);
  CHECK(mixed.step.spans[0].rows == 3);
  CHECK(mixed.step.spans[0].context == 3);
  CHECK(mixed.step.spans[1].first_row == 3);
  CHECK(mixed.step.spans[1].rows == 2);
  CHECK(mixed.step.spans[1].block_tables[0][0] == 8);

  // A sequence that is not finite stands nowhere.
  plan = plan_of(span_of(SpanKind::kDecode, 6, 1, LogitsWanted::kLast));
  slots.place(plan);
  std::vector<SampledToken> bad = drawn({-1});
  bad[0].non_finite = true;
  result = slots.settle(plan, bad);
  REQUIRE(result.spans[0].non_finite);
  CHECK(slots.standing(plan, result).step.rows == 0);
  CHECK(slots.standing(plan, result).rows.empty());
}

TEST_CASE("drafts the plan supplies replace the device's") {
  DeviceSlots slots = prefilled(10, 2);
  const std::vector<Ids> drafts{{5, 6}};
  slots.keep_drafts(drafts);
  Span span = span_of(SpanKind::kVerify, 3, 3, LogitsWanted::kAll);
  span.supplied_drafts = {8, 9};
  const StepPlan plan = plan_of(span);
  const StepInputs& inputs = slots.place(plan);
  REQUIRE(Ids(inputs.token_ids, inputs.token_ids + 3) == Ids{4, 8, 9});
}

TEST_CASE("a constrained span that ran reports the drafts behind it, and they count in the digest") {
  DeviceSlots slots = prefilled(10, 2);
  slots.keep_drafts(std::vector<Ids>{{5, 6}});
  Span span = span_of(SpanKind::kVerify, 3, 3, LogitsWanted::kAll, 3);
  span.constrained = true;
  const StepPlan plan = plan_of(span);
  slots.place(plan);
  StepResult result = slots.settle(plan, drawn({5, 9, 9}));
  slots.keep_drafts(std::vector<Ids>{{7, 8, 9}});
  const uint64_t before = result.digest;
  slots.report_drafts(plan, &result);
  REQUIRE(result.spans[0].drafts == Ids{7, 8, 9});
  REQUIRE(result.digest != before);
  REQUIRE(result.digest == digest_of(result));
  // Starved: nothing is reported, and the device still holds what it did.
  slots.place(plan, [] { return true; });
  StepResult starved = slots.settle(plan, {});
  slots.report_drafts(plan, &starved);
  REQUIRE(starved.spans[0].starved);
  REQUIRE(starved.spans[0].drafts.empty());
  REQUIRE(slots.place(plan).rows == 3);
  // Nobody asks for those of an unconstrained span.
  const StepPlan plain = plan_of(span_of(SpanKind::kVerify, 3, 3, LogitsWanted::kAll, 3));
  result = slots.settle(plain, drawn({7, 8, 9}));
  slots.keep_drafts(std::vector<Ids>{{1}});
  slots.report_drafts(plain, &result);
  REQUIRE(result.spans[0].drafts.empty());
}

TEST_CASE("masks stand beside the logit rows that the plan counts, whichever run") {
  DeviceSlots slots = prefilled(10, 3);
  slots.keep_drafts(std::vector<Ids>{{5}});
  OpenSlot open = opening(1, 1, {1, 2}, 4);
  slots.open(open);
  slots.grant({1, 0, {7}});
  Span stale = span_of(SpanKind::kDecode, 3, 1, LogitsWanted::kLast), chunk = span_of(SpanKind::kPrefill, 0, 2, LogitsWanted::kLast);
  stale.generation = 7;
  chunk.slot = 1;
  StepPlan plan;
  plan.spans = {span_of(SpanKind::kVerify, 3, 4, LogitsWanted::kAll), chunk};
  StepMasks masks;
  for (uint32_t i = 0; i < 5; ++i) masks.rows.push_back({i});
  masks.rows[1].clear();
  slots.place(plan);
  const auto rows = slots.sample_rows(plan, masks);
  REQUIRE(rows.size() == 3);  // two of the four verify rows, and the prompt's last
  REQUIRE(*rows[0].mask == 0);
  REQUIRE(rows[1].mask == nullptr);
  REQUIRE(*rows[2].mask == 4);

  plan.spans = {stale, chunk};
  slots.place(plan);
  const auto after_stale = slots.sample_rows(plan, masks);
  REQUIRE(after_stale.size() == 1);
  REQUIRE(after_stale[0].mask == nullptr);  // row 1 of the plan
  REQUIRE_THROWS_AS(require_masks(plan, masks, 32), DeviceError);  // five masks for two rows
  masks.rows.resize(2);
  require_masks(plan, masks, 32);
  REQUIRE_THROWS_AS(require_masks(plan, masks, 33), DeviceError);  // a word is missing
}

TEST_CASE("a done, released or stale slot does nothing") {
  DeviceSlots slots = prefilled(2, 0);
  const StepPlan plan = plan_of(span_of(SpanKind::kDecode, 3, 1, LogitsWanted::kLast));
  slots.place(plan);
  REQUIRE(slots.settle(plan, drawn({7})).spans[0].done == DoneReason::kLength);
  REQUIRE(slots.place(plan).rows == 0);
  const StepResult idle = slots.settle(plan, {});
  REQUIRE(idle.spans[0].emitted.empty());
  REQUIRE(idle.spans[0].done == DoneReason::kNone);

  DeviceSlots other = prefilled(5, 0);
  other.release({0, 7});  // another generation's release changes nothing
  REQUIRE(other.place(plan).rows == 1);
  other.settle(plan, drawn({7}));
  other.release({0, 1});
  REQUIRE(other.place(plan).rows == 0);
}

TEST_CASE("a slot without room starves and changes nothing; drafts past the budget are cut") {
  DeviceSlots slots = prefilled(30, 3);  // 8 tokens of room, 3 cached
  const StepPlan decode = plan_of(span_of(SpanKind::kDecode, 3, 1, LogitsWanted::kLast, 3));
  for (int32_t i = 0; i < 5; ++i) {
    REQUIRE(slots.place(decode).rows == 1);
    slots.settle(decode, drawn({40 + i}));
  }
  REQUIRE(slots.place(decode).rows == 0);
  const StepResult starved = slots.settle(decode, {});
  REQUIRE(starved.spans[0].starved);
  slots.grant({0, 0, {9}});
  REQUIRE(slots.place(decode).rows == 1);
  REQUIRE(slots.settle(decode, drawn({60})).spans[0].emitted == Ids{60});

  DeviceSlots nearly = prefilled(3, 3);  // two tokens left: one draft at most
  REQUIRE(nearly.draft_requests()[0].max_tokens == 1);
}

TEST_CASE("plans that the slots cannot honour are device errors") {
  DeviceSlots slots(shape());
  REQUIRE_THROWS_AS(slots.open(opening(2, 1, {1}, 1)), DeviceError);
  REQUIRE_THROWS_AS(slots.open(opening(0, 1, {}, 1)), DeviceError);
  REQUIRE_THROWS_AS(slots.grant({0, 3, {1}}), DeviceError);
  slots.open(opening(0, 1, {1, 2, 3, 4, 5}, 1));
  slots.grant({0, 0, {1}});
  REQUIRE_THROWS_AS(slots.place(plan_of(span_of(SpanKind::kPrefill, 1, 2, LogitsWanted::kNone))), DeviceError);
  REQUIRE_THROWS_AS(slots.place(plan_of(span_of(SpanKind::kPrefill, 0, 5, LogitsWanted::kNone))), DeviceError);
  REQUIRE_THROWS_AS(slots.place(plan_of(span_of(SpanKind::kPrefill, 0, 3, LogitsWanted::kLast))), DeviceError);
  REQUIRE_THROWS_AS(slots.place(plan_of(span_of(SpanKind::kDecode, 0, 1, LogitsWanted::kLast))), DeviceError);
}

TEST_CASE("synthetic acceptance decides how many drafts stand, and nothing else") {
  struct Case {
    const char* rates;
    Ids emitted;
    int32_t accepted;
  };
  for (const Case& c : {Case{"1,1", {7, 8, 22}, 2}, Case{"1,0", {7, 21}, 1}, Case{"0,1", {20}, 0}}) {
    DeviceShape with = shape();
    with.synthetic = SyntheticAcceptance::parse(c.rates, 3).value();
    DeviceSlots slots(with);
    slots.open(opening(0, 1, {1, 2, 3}, 9));
    slots.grant({0, 0, {5, 6}});
    const StepPlan prefill = plan_of(span_of(SpanKind::kPrefill, 0, 3, LogitsWanted::kLast));
    slots.place(prefill);
    slots.settle(prefill, drawn({4}));
    Span span = span_of(SpanKind::kVerify, 3, 3, LogitsWanted::kAll);
    span.supplied_drafts = {7, 8};
    const StepPlan plan = plan_of(span);
    REQUIRE(slots.place(plan).rows == 3);
    const StepResult result = slots.settle(plan, drawn({20, 21, 22}));
    CHECK(result.spans[0].emitted == c.emitted);
    CHECK(result.spans[0].accepted == c.accepted);
    CHECK(result.spans[0].drafted == 2);
    CHECK(slots.place(plan_of(span_of(SpanKind::kDecode, 3 + static_cast<int32_t>(c.emitted.size()), 1, LogitsWanted::kLast))).positions[0] ==
          3 + static_cast<int32_t>(c.emitted.size()));
  }
}
