// See calibration_setup.h.
#include "engine/spec/calibration_setup.h"

#include <algorithm>
#include <numeric>

namespace slipstream {
namespace {

constexpr int32_t kBlockTokens = 32;

}  // namespace

Result<std::unique_ptr<CalibrationSetup>> CalibrationSetup::load(Checkpoint& target, const ModelConfig& target_config, Checkpoint& drafter,
                                                                 const DrafterFacts& facts, Ops& ops, const CalibrationSize& size) {
  std::unique_ptr<CalibrationSetup> out(new CalibrationSetup(ops, size));
  DrafterConfig config = facts.config;
  config.block_rows = std::max(config.block_rows, kMostBlockRows);
  const int32_t longest = size.prompt_tokens + size.tokens + config.block_rows;
  if (longest > std::min(target_config.context_length, config.stack.context_length))
    return invalid_argument("texts of " + std::to_string(size.prompt_tokens + size.tokens) + " tokens and a block of " +
                                std::to_string(config.block_rows) + " are over the context of the target (" +
                                std::to_string(target_config.context_length) + ") or of the drafter (" +
                                std::to_string(config.stack.context_length) + "); ask for fewer tokens",
                            "tokens");
  LoadOptions load;
  load.max_rows = load.max_logit_rows = kRows;
  SLIP_TRY(out->model_, load_model(target, target_config, ops, load));
  DrafterOptions options;
  options.load = load;
  options.max_blocks = kBlocks;
  options.target_checkpoint = &target;
  SLIP_TRY(out->drafter_, load_dflash_drafter(drafter, config, *out->model_, ops, options));

  const int32_t blocks = size.texts * ((longest + kBlockTokens - 1) / kBlockTokens);
  KvCacheShape shape;
  shape.groups = out->model_->cache_groups();
  shape.blocks.assign(shape.groups.size(), blocks);
  shape.block_tokens = kBlockTokens;
  shape.dtype = size.cache_dtype;
  SLIP_TRY(out->target_kv_, KvCache::create(ops, shape));
  out->target_tables_ = std::make_unique<ScratchTables>(size.texts, longest, kBlockTokens, static_cast<int32_t>(shape.groups.size()));
  // All layers of the drafter in one group, so that it matters to nobody which of them slide.
  const CacheGroupSpec one = out->drafter_->cache_groups().front();
  shape.groups = {{config.stack.layers, one.kv_heads, one.head_dim, 0}};
  shape.blocks = {blocks};
  SLIP_TRY(out->drafter_kv_, KvCache::create(ops, shape));
  out->drafter_tables_ = std::make_unique<ScratchTables>(size.texts, longest, kBlockTokens, 1);
  ops.warm_up(std::max(kRows, kBlocks * config.block_rows));
  return out;
}

void CalibrationSetup::write(std::span<const std::vector<int32_t>> prompts, const std::vector<int32_t>& stop_ids,
                             const std::function<void(int32_t, int32_t)>& progress) {
  CHECK(static_cast<int32_t>(prompts.size()) <= size_.texts, "more prompts than the setup has room for");
  std::vector<int32_t> layers(static_cast<size_t>(model_->config().layers));
  std::iota(layers.begin(), layers.end(), 0);
  TextOptions options;
  options.layers = layers;
  options.stop_ids = stop_ids;
  options.tokens = size_.tokens;
  options.max_rows = kRows;
  options.progress = progress;
  text_ = write_text(*model_, ops_, target_kv_, *target_tables_, prompts, options);
}

Calibration CalibrationSetup::calibrate(const DrafterFacts& facts, std::vector<int32_t> mask_tokens,
                                        const std::function<void(const std::string&)>& progress) {
  DrafterTrial trial(text_, ops_, drafter_kv_, *drafter_tables_, {.anchors = size_.anchors, .max_rows = kRows, .max_blocks = kBlocks});
  CalibrationOptions options;
  options.mask_tokens = std::move(mask_tokens);
  options.target_theta = model_->config().rope_theta;
  options.target_embedding_scale = model_->ends().embedding_scale;
  options.target_layers = model_->config().layers;
  options.progress = progress;
  Calibration result = calibrate_drafter(*drafter_, trial, facts, options);
  result.texts = static_cast<int32_t>(text_.sequences.size());
  result.tokens = text_.tokens();
  return result;
}

}  // namespace slipstream
