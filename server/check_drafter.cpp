// See load_drafter.h: the short self-check of every load.
#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "engine/base/log.h"
#include "engine/spec/drafter_trial.h"
#include "server/drafter_prompts.h"
#include "server/load_drafter.h"

namespace slipstream {
namespace {

constexpr int32_t kTexts = 4, kTokens = 24, kAnchors = 8, kMostPromptTokens = 128, kRows = 64;
constexpr double kWritingSeconds = 0.8;   // a step more at most; reading the prompts and drafting come on top
constexpr double kLeastFirstSlot = 0.3;   // below it some setting is probably wrong (published drafters have 0.5 and more)

nlohmann::ordered_json not_run(const std::string& why) {
  log::warn("drafter_self_check", {{"not_run", why}});
  return {{"not_run", why}};
}

nlohmann::ordered_json run_check(DflashDrafter& drafter, const DrafterCheck& check) {
  const auto begin = std::chrono::steady_clock::now();
  const DrafterConfig& config = drafter.config();
  const KvCacheShape& shape = check.kv.shape();
  const int32_t room = std::min(check.context, config.stack.context_length) - kTokens - config.block_rows;
  const int32_t texts = std::min(kTexts, check.max_num_seqs), rows = std::min(kRows, check.max_rows);
  const auto own = drafter_prompt_texts();
  auto prompts = drafter_prompts(check.tokenizer, check.chat_template, std::vector<std::string>(own.begin(), own.end()),
                                 check.target.config().vocab, std::min(room, kMostPromptTokens), texts);
  if (prompts.empty()) return not_run("no prompt fits the context");
  int32_t longest = kTokens + config.block_rows;
  for (const auto& prompt : prompts) longest = std::max(longest, static_cast<int32_t>(prompt.size()) + kTokens + config.block_rows);
  const int32_t each = (longest + shape.block_tokens - 1) / shape.block_tokens;
  const int32_t fit = *std::ranges::min_element(shape.blocks) / each;
  if (fit < 1) return not_run("the cache has no room for a text of " + std::to_string(longest) + " tokens");
  if (static_cast<int32_t>(prompts.size()) > fit) prompts.resize(static_cast<size_t>(fit));

  const ScratchTables tables(static_cast<int32_t>(prompts.size()), longest, shape.block_tokens, check.kv.groups());
  TextOptions writing;
  writing.layers = config.taps;
  writing.stop_ids = check.stop_ids;
  writing.tokens = kTokens;
  writing.seconds = kWritingSeconds;
  writing.max_rows = rows;
  const WrittenText text = write_text(check.target, check.ops, check.kv, tables, prompts, writing);
  DrafterTrial trial(text, check.ops, check.kv, tables,
                     {.anchors = kAnchors, .max_rows = rows, .max_blocks = check.max_num_seqs, .losses = false});
  if (trial.anchors() == 0) return not_run("the target wrote nothing to the prompts");
  const DraftScore score = trial.score(drafter, config.drafts(config.block_rows));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<double> slots;
  for (int32_t s = 0; s < score.slots(); ++s) slots.push_back(score.accuracy(s));
  const bool low = slots[0] < kLeastFirstSlot;
  log::write(low ? log::Level::kWarn : log::Level::kInfo, "drafter_self_check",
             {{"first_slot", slots[0]}, {"acceptance_length", score.length()}, {"tokens", text.tokens()}, {"anchors", trial.anchors()},
              {"seconds", seconds},
              {"note", low ? "few drafts are right: slipstream calibrate-drafter TARGET DRAFTER says whether a setting is wrong" : "as it should be"}});
  return {{"slots", slots}, {"acceptance_length", score.length()}, {"texts", prompts.size()}, {"tokens", text.tokens()},
          {"anchors", trial.anchors()}, {"seconds", seconds}, {"low", low}};
}

}  // namespace

void self_check(LoadedDrafter& drafter, const DrafterCheck& check) {
  auto report = nlohmann::ordered_json::parse(drafter.report);
  report["self_check"] = run_check(*drafter.stack, check);
  drafter.report = report.dump();
}

}  // namespace slipstream
