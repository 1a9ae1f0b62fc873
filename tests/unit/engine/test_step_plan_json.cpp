#include "engine/schedule/step_plan.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

StepPlan full_plan() {
  StepPlan plan;
  plan.step = 0xffffffffffffffffull;
  OpenSlot open;
  open.slot = 3;
  open.generation = 0xffffffffu;
  open.sampling.temperature = 0.1f;  // not representable: must survive exactly
  open.sampling.top_p = 0.333333343f;
  open.sampling.top_k = 40;
  open.sampling.min_p = 1e-30f;
  open.sampling.presence_penalty = -1.7f;
  open.sampling.frequency_penalty = 0.2f;
  open.sampling.repetition_penalty = 1.1f;
  open.sampling.logit_bias = {{5, -99.5f}, {7, 0.1f}};
  open.sampling.seed = 0x8000000000000001ull;
  open.sampling.top_logprobs = 4;
  open.sampling.stop_ids = {2, 9};
  open.sampling.max_tokens = 77;
  open.sampling.min_tokens = 3;
  open.choice = 2;
  open.history = {1, 2, 3};
  open.prompt_tokens = 2;
  open.cached_tokens = 1;
  open.remaining_tokens = 76;
  open.emitted_tokens = 1;
  plan.commands = {ReleaseSlot{1, 4}, open, GrantBlocks{3, 1, {8, 9}}, CopyBlock{0, 6, 7}};
  plan.spans = {{3, 5, SpanKind::kVerify, 17, 4, 3, {11, 12}, LogitsWanted::kAll, true},
                {0, 1, SpanKind::kPrefill, 0, 64, 0, {}, LogitsWanted::kNone, false}};
  plan.total_rows = 68;
  plan.rows_class = 0;
  plan.commit = CommitVariant::kFull;
  return plan;
}

}  // namespace

TEST_CASE("a plan survives its JSON line") {
  const std::string line = to_json(full_plan());
  REQUIRE(line.find('\n') == std::string::npos);
  const auto plan = plan_from_json(line);
  REQUIRE(plan.ok());
  REQUIRE(to_json(*plan) == line);
  REQUIRE(plan->step == 0xffffffffffffffffull);
  const auto& open = std::get<OpenSlot>(plan->commands[1]);
  REQUIRE(open.generation == 0xffffffffu);
  REQUIRE(open.sampling.temperature == 0.1f);
  REQUIRE(open.sampling.top_p == 0.333333343f);
  REQUIRE(open.sampling.min_p == 1e-30f);
  REQUIRE(open.sampling.seed == 0x8000000000000001ull);
  REQUIRE(open.sampling.logit_bias[1].token == 7);
  REQUIRE(open.sampling.logit_bias[1].bias == 0.1f);
  REQUIRE(open.history == std::vector<int32_t>{1, 2, 3});
  REQUIRE(open.emitted_tokens == 1);
  REQUIRE(std::get<ReleaseSlot>(plan->commands[0]).generation == 4);
  REQUIRE(std::get<GrantBlocks>(plan->commands[2]).blocks == std::vector<int32_t>{8, 9});
  REQUIRE(std::get<CopyBlock>(plan->commands[3]).target == 7);
  REQUIRE(plan->spans[0].kind == SpanKind::kVerify);
  REQUIRE(plan->spans[0].supplied_drafts == std::vector<int32_t>{11, 12});
  REQUIRE(plan->spans[1].logits == LogitsWanted::kNone);
  REQUIRE(plan->spans[0].constrained);
  REQUIRE_FALSE(plan->spans[1].constrained);
  REQUIRE(plan->commit == CommitVariant::kFull);
}

TEST_CASE("damaged lines are errors that name the field") {
  const std::string good = to_json(full_plan());
  const auto damaged = [&](const std::string& from, const std::string& to, const char* part) {
    std::string line = good;
    const size_t at = line.find(from);
    REQUIRE(at != std::string::npos);
    line.replace(at, from.size(), to);
    const auto plan = plan_from_json(line);
    REQUIRE(!plan.ok());
    INFO(plan.error().message);
    REQUIRE(plan.error().message.find(part) != std::string::npos);
  };
  damaged("\"total_rows\":68", "\"total_rows\":68.5", "total_rows");
  damaged("\"total_rows\":68", "\"total_rows\":99999999999", "total_rows");
  damaged("\"total_rows\":68", "\"total_rows\":18446744073709551615", "total_rows");
  damaged("\"rows_class\":0,", "", "rows_class");
  damaged("\"commit\":2", "\"commit\":3", "commit");
  damaged("\"do\":\"copy\"", "\"do\":\"burn\"", "do is none of");
  damaged("[[5,", "[[5.5,", "logit_bias");
  damaged("\"kind\":2", "\"kind\":-1", "kind");
  damaged("\"constrained\":true", "\"constrained\":1", "constrained");
  REQUIRE(!plan_from_json("").ok());
  REQUIRE(!plan_from_json("[]").ok());
  REQUIRE(!plan_from_json("{\"step\":1,\"commands\":{},\"spans\":[]}").ok());
  REQUIRE(!plan_from_json(good.substr(0, good.size() / 2)).ok());
}
