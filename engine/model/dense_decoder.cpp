// The forward pass, readable top to bottom: DenseDecoder::forward and head. Owns the step's buffers.
#include "engine/model/dense_decoder.h"

#include <algorithm>
#include <cmath>

#include "engine/model/rope.h"

namespace slipstream {
namespace {

class DenseDecoder final : public Model {
 public:
  DenseDecoder(WeightLoader& loader, DecoderWeights weights);

  const ModelConfig& config() const override { return config_; }
  ModelEnds ends() const override {
    const Weight* embedding = weights_.embedding.get();
    return {embedding, weights_.head ? weights_.head.get() : embedding, 1, 0};
  }
  std::vector<CacheGroupSpec> cache_groups() const override;
  void forward(const StepInputs& step, const KvViews& kv, Taps* taps) override;
  const float* head() override;
  int64_t resident_bytes() const override;

 private:
  void qkv_to_cache(const DecoderLayer& layer, const StepInputs& step, const KvLayer& kv);
  void attend(const DecoderLayer& layer, int32_t index, const StepInputs& step, const KvLayer& kv);
  void mlp(const DecoderLayer& layer, const float* next_norm);
  const StepInputs& narrow_to_logit_rows(const StepInputs& step);
  void gather_logit_rows(const StepInputs& step);
  void tap(const Taps& taps, int32_t layer, int32_t rows);

  const ModelConfig config_;
  Ops& ops_;
  const int32_t max_rows_, max_logit_rows_;
  const int32_t heads_, kv_heads_;  // on this rank
  const int64_t qkv_cols_;
  DummySource source_;  // dummy weights that weights_ may read; outlive them
  DecoderWeights weights_;
  Buffer inv_freq_;  // [rope_dim / 2]

  // The step's memory. residual_ and qkv_ point at the full buffers until the last layer narrows to the logit rows.
  Buffer residual_full_, residual_narrow_;  // [max rows | max logit rows, hidden]
  Buffer qkv_full_, qkv_narrow_;            // [max rows | max logit rows, (H + 2 G) D]
  Buffer gate_up_;                          // [max rows, 2 F]
  Buffer kept_rows_;                        // [max logit rows, hidden]
  Buffer logits_;                           // [max logit rows, vocab]
  float* residual_ = nullptr;
  float* qkv_ = nullptr;
  Activation hidden_;     // normed residual, the input of q|k|v and gate|up
  Activation attention_;  // [rows, H D]
  Activation ffn_;        // [rows, F]
  Activation head_in_;    // [logit rows, hidden]
  std::vector<SpanRows> narrow_spans_;
  std::vector<int32_t> narrow_positions_;
  StepInputs narrow_step_;
};

DenseDecoder::DenseDecoder(WeightLoader& loader, DecoderWeights weights)
    : config_(loader.config()),
      ops_(loader.ops()),
      max_rows_(loader.options().max_rows),
      max_logit_rows_(loader.options().max_logit_rows),
      heads_(static_cast<int32_t>(loader.share().heads.count)),
      kv_heads_(static_cast<int32_t>(loader.share().kv_heads.count)),
      qkv_cols_(int64_t{heads_ + 2 * kv_heads_} * config_.head_dim),
      source_(loader.take_source()),
      weights_(std::move(weights)) {
  const std::vector<float> inv_freq = rope_inverse_frequencies(config_);
  inv_freq_ = ops_.allocate(inv_freq.size() * sizeof(float));
  ops_.upload(inv_freq_.data(), inv_freq.data(), inv_freq.size() * sizeof(float));

  const auto floats = [&](int64_t rows, int64_t cols) {
    return ops_.allocate(static_cast<size_t>(rows * cols) * sizeof(float));
  };
  const int64_t ffn = loader.share().ffn.count;
  residual_full_ = floats(max_rows_, config_.hidden);
  residual_narrow_ = floats(max_logit_rows_, config_.hidden);
  qkv_full_ = floats(max_rows_, qkv_cols_);
  qkv_narrow_ = floats(max_logit_rows_, qkv_cols_);
  gate_up_ = floats(max_rows_, 2 * ffn);
  kept_rows_ = floats(max_logit_rows_, config_.hidden);
  logits_ = floats(max_logit_rows_, config_.vocab);

  uint8_t hidden_forms = 0, attention_forms = 0, ffn_forms = 0;
  for (const DecoderLayer& layer : weights_.layers) {
    hidden_forms |= ops_.activation_forms(*layer.qkv) | ops_.activation_forms(*layer.gate_up);
    attention_forms |= ops_.activation_forms(*layer.o);
    ffn_forms |= ops_.activation_forms(*layer.down);
  }
  const Weight& head = weights_.head ? *weights_.head : *weights_.embedding;
  hidden_ = ops_.make_activation(max_rows_, config_.hidden, hidden_forms);
  attention_ = ops_.make_activation(max_rows_, int64_t{heads_} * config_.head_dim, attention_forms);
  ffn_ = ops_.make_activation(max_rows_, ffn, ffn_forms);
  head_in_ = ops_.make_activation(max_logit_rows_, config_.hidden, ops_.activation_forms(head));
  ops_.plan_attention(max_rows_, heads_, kv_heads_, config_.head_dim);
  narrow_spans_.reserve(static_cast<size_t>(max_logit_rows_));
  narrow_positions_.reserve(static_cast<size_t>(max_logit_rows_));
}

std::vector<CacheGroupSpec> DenseDecoder::cache_groups() const {
  const int32_t full = config_.sliding_window == 0 ? config_.layers : config_.first_window_layer;
  std::vector<CacheGroupSpec> groups;
  if (full > 0) groups.push_back({full, kv_heads_, config_.head_dim, 0});
  if (full < config_.layers)
    groups.push_back({config_.layers - full, kv_heads_, config_.head_dim, config_.sliding_window});
  return groups;
}

void DenseDecoder::forward(const StepInputs& inputs, const KvViews& kv, Taps* taps) {
  StepInputs step = inputs;
  ops_.begin_step(&step);
  CHECK(step.rows >= 1 && step.rows <= max_rows_, "a step over LoadOptions::max_rows");
  CHECK(static_cast<int64_t>(step.logit_rows.size()) <= max_logit_rows_, "a step over LoadOptions::max_logit_rows");
  residual_ = residual_full_.as<float>();
  qkv_ = qkv_full_.as<float>();
  ops_.embed(*weights_.embedding, step, 1.0f, residual_);
  ops_.rms_norm(residual_, step.rows, weights_.layers[0].attn_norm.as<float>(), config_.norm_eps, &hidden_);

  const StepInputs* active = &step;
  for (int32_t l = 0; l < config_.layers; ++l) {
    const DecoderLayer& layer = weights_.layers[static_cast<size_t>(l)];
    const KvLayer cache = kv.layer(l);
    const bool last = l + 1 == config_.layers;
    qkv_to_cache(layer, step, cache);
    // Once the last layer's K and V are written, only the rows with logits matter, unless a tap listens to all.
    const bool tapped = taps != nullptr && std::find(taps->layers.begin(), taps->layers.end(), l) != taps->layers.end();
    if (last && !tapped) active = &narrow_to_logit_rows(step);
    if (active->rows > 0) {
      attend(layer, l, *active, cache);
      mlp(layer, last ? nullptr : weights_.layers[static_cast<size_t>(l + 1)].attn_norm.as<float>());
    }
    if (tapped) tap(*taps, l, step.rows);
  }

  const float* kept = residual_;
  if (active->rows != static_cast<int32_t>(step.logit_rows.size())) {
    ops_.gather_rows(residual_, step.logit_rows, config_.hidden, kept_rows_.as<float>());
    kept = kept_rows_.as<float>();
  }
  head_in_.rows = static_cast<int32_t>(step.logit_rows.size());
  if (head_in_.rows > 0)
    ops_.rms_norm(kept, head_in_.rows, weights_.output_norm.as<float>(), config_.norm_eps, &head_in_);
}

void DenseDecoder::qkv_to_cache(const DecoderLayer& layer, const StepInputs& step, const KvLayer& kv) {
  ops_.linear_qkv(*layer.qkv, hidden_, layer.qkv_bias.as<float>(),
                  {.step = &step,
                  .qkv = qkv_,
                  .heads = heads_,
                  .kv_heads = kv_heads_,
                  .head_dim = config_.head_dim,
                  .q_norm = layer.q_norm.as<float>(),
                  .k_norm = layer.k_norm.as<float>(),
                  .norm_eps = config_.norm_eps,
                  .rope = {.style = config_.rope_style,
                           .dim = config_.rope_dim,
                           .inv_freq = inv_freq_.as<float>(),
                           .attention_factor = config_.rope_attention_factor},
                  .kv = kv});
}

void DenseDecoder::attend(const DecoderLayer& layer, int32_t index, const StepInputs& step, const KvLayer& kv) {
  ops_.attention({.step = &step,
                  .q = qkv_,
                  .q_stride = qkv_cols_,
                  .heads = heads_,
                  .kv_heads = kv_heads_,
                  .head_dim = config_.head_dim,
                  .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
                  .window = index >= config_.first_window_layer ? config_.sliding_window : 0,
                  .causal = true,
                  .kv = kv,
                  .out = &attention_});
  ops_.row_linear_add_norm(*layer.o, attention_, layer.o_bias.as<float>(), residual_, layer.mlp_norm.as<float>(),
                           config_.norm_eps, &hidden_);
}

void DenseDecoder::mlp(const DecoderLayer& layer, const float* next_norm) {
  ops_.linear_swiglu(*layer.gate_up, hidden_, layer.gate_up_bias.as<float>(), gate_up_.as<float>(), &ffn_);
  ops_.row_linear_add_norm(*layer.down, ffn_, layer.down_bias.as<float>(), residual_, next_norm, config_.norm_eps,
                           next_norm == nullptr ? nullptr : &hidden_);
}

/// The same step over the logit rows alone: q and the residual are gathered, and each run of rows of one span becomes
/// a span with a longer context. Row results depend on nothing else, so no bit changes.
const StepInputs& DenseDecoder::narrow_to_logit_rows(const StepInputs& step) {
  const auto rows = static_cast<int32_t>(step.logit_rows.size());
  if (rows == step.rows) return step;
  if (step.device_owned) {
    if (!ops_.narrow_step(step, &narrow_step_)) return step;
    gather_logit_rows(step);
    return narrow_step_;
  }
  narrow_spans_.clear();
  narrow_positions_.clear();
  size_t next = 0;
  for (const SpanRows& span : step.spans) {
    int32_t previous = -2;
    for (; next < step.logit_rows.size() && step.logit_rows[next] < span.first_row + span.rows; ++next) {
      const int32_t row = step.logit_rows[next];
      const int32_t position = span.context + row - span.first_row;
      if (row == previous + 1) {
        ++narrow_spans_.back().rows;
      } else {
        narrow_spans_.push_back({static_cast<int32_t>(next), 1, position, span.block_tables, span.blocks});
      }
      narrow_positions_.push_back(position);
      previous = row;
    }
  }
  CHECK(next == step.logit_rows.size(), "a logit row outside the spans");
  narrow_step_ = {.rows = rows,
                  .token_ids = nullptr,
                  .positions = narrow_positions_.data(),
                  .spans = narrow_spans_,
                  .logit_rows = {},
                  .groups = step.groups,
                  .device = nullptr};
  if (rows > 0) ops_.begin_step(&narrow_step_);
  gather_logit_rows(step);
  return narrow_step_;
}

void DenseDecoder::gather_logit_rows(const StepInputs& step) {
  if (!step.logit_rows.empty()) {
    ops_.gather_rows(qkv_, step.logit_rows, qkv_cols_, qkv_narrow_.as<float>());
    ops_.gather_rows(residual_, step.logit_rows, config_.hidden, residual_narrow_.as<float>());
  }
  qkv_ = qkv_narrow_.as<float>();
  residual_ = residual_narrow_.as<float>();
}

void DenseDecoder::tap(const Taps& taps, int32_t layer, int32_t rows) {
  const size_t listeners = taps.layers.size();
  for (size_t index = 0; index < listeners; ++index) {
    if (taps.layers[index] != layer) continue;
    for (int32_t r = 0; r < rows; ++r)
      ops_.gather_rows(residual_, {&r, 1}, config_.hidden,
                       taps.out + (static_cast<size_t>(r) * listeners + index) * static_cast<size_t>(config_.hidden));
  }
}

const float* DenseDecoder::head() {
  if (head_in_.rows > 0)
    ops_.linear(weights_.head ? *weights_.head : *weights_.embedding, head_in_, nullptr, logits_.as<float>());
  return logits_.as<float>();
}

int64_t DenseDecoder::resident_bytes() const {
  int64_t bytes = weights_.embedding->resident_bytes() + (weights_.head ? weights_.head->resident_bytes() : 0) +
                  static_cast<int64_t>(weights_.output_norm.bytes());
  for (const DecoderLayer& layer : weights_.layers) {
    for (const auto* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) bytes += (*weight)->resident_bytes();
    for (const Buffer* buffer : {&layer.attn_norm, &layer.qkv_bias, &layer.q_norm, &layer.k_norm, &layer.o_bias,
                                 &layer.mlp_norm, &layer.gate_up_bias, &layer.down_bias})
      bytes += static_cast<int64_t>(buffer->bytes());
  }
  return bytes;
}

}  // namespace

std::unique_ptr<Model> make_dense_decoder(WeightLoader& loader, DecoderWeights weights) {
  return std::make_unique<DenseDecoder>(loader, std::move(weights));
}

}  // namespace slipstream
