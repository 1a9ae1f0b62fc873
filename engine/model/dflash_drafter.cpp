// The two passes, readable top to bottom: inject and draft.
#include "engine/model/dflash_drafter.h"

#include <algorithm>
#include <cmath>

#include "engine/model/rope.h"

namespace slipstream {

DflashDrafter::DflashDrafter(DrafterConfig config, DrafterWeights weights, const RankShare& share, const ModelEnds& target,
                             Ops& ops, const DrafterOptions& options)
    : config_(std::move(config)),
      ops_(ops),
      target_(target),
      first_cache_layer_(options.first_cache_layer),
      most_block_rows_(config_.block_rows),
      max_rows_(options.load.max_rows),
      max_blocks_(options.max_blocks),
      max_block_rows_(options.max_blocks * config_.block_rows),
      heads_(static_cast<int32_t>(share.heads.count)),
      kv_heads_(static_cast<int32_t>(share.kv_heads.count)),
      qkv_cols_(int64_t{heads_ + 2 * kv_heads_} * config_.stack.head_dim),
      vocab_(static_cast<int32_t>(target.head->rows())),
      weights_(std::move(weights)) {
  const ModelConfig& s = config_.stack;
  inv_freq_ = ops_.allocate(static_cast<size_t>(s.rope_dim / 2) * sizeof(float));
  apply_conventions();

  const auto floats = [&](int64_t rows, int64_t cols) {
    return ops_.allocate(static_cast<size_t>(rows * cols) * sizeof(float));
  };
  const int64_t rows = max_block_rows_;
  fused_ = floats(max_rows_, s.hidden);
  context_kv_ = floats(max_rows_, int64_t{2} * kv_heads_ * s.head_dim);
  residual_ = floats(rows, s.hidden);
  qkv_ = floats(rows, qkv_cols_);
  gate_up_ = floats(rows, 2 * share.ffn.count);
  near_rows_ = ops_.allocate(static_cast<size_t>(rows) * sizeof(uint32_t));
  slots_ = floats(kHeadRows, s.hidden);
  scores_ = floats(kHeadRows, vocab_);

  uint8_t context_forms = 0, hidden_forms = 0, attention_forms = 0, ffn_forms = 0;
  for (const DrafterLayer& layer : weights_.layers) {
    context_forms |= ops_.activation_forms(*layer.context_kv);
    hidden_forms |= ops_.activation_forms(*layer.block.qkv) | ops_.activation_forms(*layer.block.gate_up);
    attention_forms |= ops_.activation_forms(*layer.block.o);
    ffn_forms |= ops_.activation_forms(*layer.block.down);
  }
  features_ = ops_.make_activation(max_rows_, weights_.fusion->cols(), ops_.activation_forms(*weights_.fusion));
  context_ = ops_.make_activation(max_rows_, s.hidden, context_forms);
  hidden_ = ops_.make_activation(max_block_rows_, s.hidden, hidden_forms);
  attention_ = ops_.make_activation(max_block_rows_, int64_t{heads_} * s.head_dim, attention_forms);
  ffn_ = ops_.make_activation(max_block_rows_, share.ffn.count, ffn_forms);
  head_in_ = ops_.make_activation(kHeadRows, s.hidden, ops_.activation_forms(*target_.head));
  ops_.plan_attention(max_block_rows_, heads_, kv_heads_, s.head_dim);

  for (auto* array : {&token_ids_, &positions_, &slot_rows_}) array->reserve(static_cast<size_t>(rows));
  near_bits_.reserve(static_cast<size_t>(rows));
  spans_.reserve(static_cast<size_t>(max_blocks_));
  SampleRow argmax;
  argmax.temperature = 0;
  laws_.assign(kHeadRows, argmax);
  drawn_.resize(kHeadRows);
}

void DflashDrafter::apply_conventions() {
  embedding_scale_ = config_.embedding_scale.value_or(target_.embedding_scale);
  logit_softcap_ = config_.logit_softcap.value_or(target_.logit_softcap);
  two_sided_ = std::ranges::any_of(config_.attention, [&](const auto& sees) { return is_two_sided(sees); });
  const auto full = std::ranges::count(config_.attention, 0, &DrafterAttention::window);
  int32_t next_full = first_cache_layer_, next_sliding = next_full + static_cast<int32_t>(full);
  cache_layers_.clear();
  for (const DrafterAttention& layer : config_.attention)
    cache_layers_.push_back(layer.window == 0 ? next_full++ : next_sliding++);
  const std::vector<float> inv_freq = rope_inverse_frequencies(config_.stack);
  ops_.upload(inv_freq_.data(), inv_freq.data(), inv_freq.size() * sizeof(float));
}

void DflashDrafter::assume(DrafterConfig config) {
  CHECK(config.block_rows <= most_block_rows_, "a block of more rows than the drafter was made for");
  CHECK(config.taps.size() == config_.taps.size() && config.attention.size() == config_.attention.size(), "conventions of another shape");
  config_ = std::move(config);
  apply_conventions();
}

std::vector<CacheGroupSpec> DflashDrafter::cache_groups() const {
  const auto full = static_cast<int32_t>(std::ranges::count(config_.attention, 0, &DrafterAttention::window));
  std::vector<CacheGroupSpec> groups;
  if (full > 0) groups.push_back({full, kv_heads_, config_.stack.head_dim, 0});
  // One window for all sliding layers, of both containers' configs.
  if (const auto sliding = std::ranges::find_if(config_.attention, [](const auto& a) { return a.window > 0; });
      sliding != config_.attention.end())
    groups.push_back({config_.stack.layers - full, kv_heads_, config_.stack.head_dim, sliding->window});
  return groups;
}

QkvParams DflashDrafter::qkv_params(const DrafterLayer& layer, int32_t index, const StepInputs& step, int32_t heads,
                                    const KvViews& kv) {
  const ModelConfig& s = config_.stack;
  return {.step = &step,
          .qkv = heads == 0 ? context_kv_.as<float>() : qkv_.as<float>(),
          .heads = heads,
          .kv_heads = kv_heads_,
          .head_dim = s.head_dim,
          .q_norm = layer.block.q_norm.as<float>(),
          .k_norm = layer.block.k_norm.as<float>(),
          .norm_eps = s.norm_eps,
          .rope = {.style = s.rope_style,
                   .dim = s.rope_dim,
                   .inv_freq = inv_freq_.as<float>(),
                   .attention_factor = s.rope_attention_factor},
          .kv = kv.layer(cache_layer(index))};
}

void DflashDrafter::inject(const StepInputs& rows, const float* taps, const KvViews& kv) {
  CHECK(rows.rows >= 1 && rows.rows <= max_rows_, "inject over DrafterOptions' rows");
  StepInputs step = rows;
  ops_.begin_step(&step);
  ops_.store_rows(taps, step.rows, &features_);
  ops_.linear(*weights_.fusion, features_, nullptr, fused_.as<float>());
  ops_.rms_norm(fused_.as<float>(), step.rows, weights_.fusion_norm.as<float>(), config_.stack.norm_eps, &context_);
  for (int32_t l = 0; l < config_.stack.layers; ++l) {
    const DrafterLayer& layer = weights_.layers[static_cast<size_t>(l)];
    ops_.linear_qkv(*layer.context_kv, context_, nullptr, qkv_params(layer, l, step, 0, kv));
  }
}

void DflashDrafter::draft(std::span<const DraftBlock> blocks, const KvViews& kv, std::span<std::vector<int32_t>> drafts) {
  CHECK(static_cast<int64_t>(blocks.size()) <= max_blocks_, "draft over DrafterOptions::max_blocks");
  CHECK(blocks.size() == drafts.size(), "as many drafts as blocks");
  if (blocks.empty()) return;
  place(blocks, kv);
  ops_.begin_step(&step_);
  ops_.embed(*target_.embedding, step_, embedding_scale_, residual_.as<float>());
  ops_.rms_norm(residual_.as<float>(), step_.rows, weights_.layers[0].block.attn_norm.as<float>(), config_.stack.norm_eps,
                &hidden_);
  for (int32_t l = 0; l < config_.stack.layers; ++l) run_layer(l, kv);
  score(blocks, drafts);
}

/// The rows of all blocks, one span each.
void DflashDrafter::place(std::span<const DraftBlock> blocks, const KvViews& kv) {
  for (auto* array : {&token_ids_, &positions_, &slot_rows_}) array->clear();
  near_bits_.clear();
  spans_.clear();
  const int32_t skipped = config_.anchor_first ? 0 : 1;
  const auto sliding = std::ranges::max(config_.attention, {}, &DrafterAttention::window).window;
  for (const DraftBlock& block : blocks) {
    CHECK(block.context >= 0 && block.context + block.rows <= config_.stack.context_length, "a block past the drafter's context");
    CHECK(block.rows >= 1 && block.rows <= config_.block_rows, "a block of more rows than the drafter has");
    CHECK(block.drafts >= 0 && block.drafts <= config_.drafts(block.rows), "more drafts than the block has slots");
    const auto first = static_cast<int32_t>(token_ids_.size());
    for (int32_t r = 0; r < block.rows; ++r) {
      token_ids_.push_back(r == 0 ? block.anchor : config_.mask_token);
      positions_.push_back(block.context + r);
      const int32_t past = std::min(r + sliding, kMaxBlockRows);  // the first row that is a window away
      near_bits_.push_back(past == kMaxBlockRows ? ~0u : (1u << past) - 1);
    }
    for (int32_t d = 0; d < block.drafts; ++d) slot_rows_.push_back(first + skipped + d);
    spans_.push_back({first, block.rows, block.context, block.block_tables, block.blocks});
  }
  step_ = {};
  step_.rows = static_cast<int32_t>(token_ids_.size());
  step_.token_ids = token_ids_.data();
  step_.positions = positions_.data();
  step_.spans = spans_;
  for (const int32_t layer : cache_layers_) step_.groups = std::max(step_.groups, kv.layer(layer).group + 1);
  if (two_sided_) ops_.upload(near_rows_.data(), near_bits_.data(), near_bits_.size() * sizeof(uint32_t));
}

/// The window of AttentionParams looks back alone. Where later rows are seen it has to hold for them too, which matters
/// when it is narrower than a block.
bool DflashDrafter::is_two_sided(const DrafterAttention& sees) const {
  return !sees.causal && sees.window > 0 && sees.window < config_.block_rows;
}

void DflashDrafter::run_layer(int32_t index, const KvViews& kv) {
  const DrafterLayer& layer = weights_.layers[static_cast<size_t>(index)];
  const DrafterAttention& sees = config_.attention[static_cast<size_t>(index)];
  const float eps = config_.stack.norm_eps;
  ops_.linear_qkv(*layer.block.qkv, hidden_, nullptr, qkv_params(layer, index, step_, heads_, kv));
  ops_.attention({.step = &step_,
                  .q = qkv_.as<float>(),
                  .q_stride = qkv_cols_,
                  .heads = heads_,
                  .kv_heads = kv_heads_,
                  .head_dim = config_.stack.head_dim,
                  .scale = 1.0f / std::sqrt(static_cast<float>(config_.stack.head_dim)),
                  .window = sees.window,
                  .causal = sees.causal,
                  .ancestor_mask = is_two_sided(sees) ? near_rows_.as<uint32_t>() : nullptr,
                  .kv = kv.layer(cache_layer(index)),
                  .out = &attention_});
  ops_.row_linear_add_norm(*layer.block.o, attention_, nullptr, residual_.as<float>(), layer.block.mlp_norm.as<float>(), eps,
                           &hidden_);
  ops_.linear_swiglu(*layer.block.gate_up, hidden_, nullptr, gate_up_.as<float>(), &ffn_);
  const bool last = index + 1 == config_.stack.layers;
  const float* next = last ? nullptr : weights_.layers[static_cast<size_t>(index) + 1].block.attn_norm.as<float>();
  ops_.row_linear_add_norm(*layer.block.down, ffn_, nullptr, residual_.as<float>(), next, eps, last ? nullptr : &hidden_);
}

/// The head over the drafted slots, kHeadRows at a time, and their argmax.
void DflashDrafter::score(std::span<const DraftBlock> blocks, std::span<std::vector<int32_t>> drafts) {
  for (std::vector<int32_t>& draft : drafts) draft.clear();
  size_t block = 0;
  int32_t taken = 0;      // slots of `block` that are done
  bool finite = true;     // so far in `block`
  for (size_t first = 0; first < slot_rows_.size(); first += kHeadRows) {
    const size_t count = std::min<size_t>(kHeadRows, slot_rows_.size() - first);
    const std::span<const int32_t> rows(slot_rows_.data() + first, count);
    ops_.gather_rows(residual_.as<float>(), rows, config_.stack.hidden, slots_.as<float>());
    ops_.rms_norm(slots_.as<float>(), static_cast<int32_t>(count), weights_.output_norm.as<float>(), config_.stack.norm_eps,
                  &head_in_);
    ops_.linear(*target_.head, head_in_, nullptr, scores_.as<float>());
    ops_.sample({scores_.as<float>(), static_cast<int32_t>(count), vocab_, laws_.data(), drawn_.data()});
    for (size_t i = 0; i < count; ++i) {
      while (taken == blocks[block].drafts) {
        ++block;
        taken = 0;
        finite = true;
      }
      finite = finite && !drawn_[i].non_finite;
      if (finite) drafts[block].push_back(drawn_[i].token);
      ++taken;
    }
  }
}

float DflashDrafter::logit(float score) const {
  const float scaled = score * config_.logit_multiplier;
  return logit_softcap_ > 0 ? logit_softcap_ * std::tanh(scaled / logit_softcap_) : scaled;
}

int64_t DflashDrafter::resident_bytes() const {
  int64_t bytes = weights_.fusion->resident_bytes() + static_cast<int64_t>(weights_.fusion_norm.bytes()) +
                  static_cast<int64_t>(weights_.output_norm.bytes());
  for (const DrafterLayer& layer : weights_.layers) {
    const DecoderLayer& block = layer.block;
    for (const auto* weight : {&layer.context_kv, &block.qkv, &block.o, &block.gate_up, &block.down})
      bytes += (*weight)->resident_bytes();
    for (const Buffer* buffer : {&block.attn_norm, &block.q_norm, &block.k_norm, &block.mlp_norm})
      bytes += static_cast<int64_t>(buffer->bytes());
  }
  return bytes;
}

}  // namespace slipstream
