// See drafter_fixture.h.
#include "tests/model/drafter_fixture.h"

#include <algorithm>
#include <fstream>

#include "engine/model/drafter_tensors.h"
#include "kernels/checked_ops.h"
#include "kernels/formats.h"
#include "tests/catch.h"

namespace slipstream::test {
namespace {

constexpr int32_t kBlockTokens = 32;

DrafterConfig config_of(const GoldenDrafter& golden) {
  MemoryCheckpoint side(CheckpointKind::kSafetensors);
  side.set_file("config.json", golden.config.dump());
  return read_drafter_config(side).value();
}

std::vector<float> values_of(const GoldenDrafter& golden, const DummyTensor& tensor) {
  int64_t count = 1;
  for (const int64_t n : tensor.shape) count *= n;
  std::vector<float> values(static_cast<size_t>(count));
  fill_dummy(golden.target.seed, {tensor.name, DType::kF32, tensor.shape}, 0, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

/// layers.1.self_attn.q_proj.weight -> blk.1.attn_q.weight
std::string gguf_name(const std::string& name) {
  const std::pair<std::string, std::string> whole[] = {
      {"fc.weight", "fc.weight"}, {"hidden_norm.weight", "enc.output_norm.weight"}, {"norm.weight", "output_norm.weight"}};
  for (const auto& [from, to] : whole)
    if (name == from) return to;
  const std::pair<std::string, std::string> parts[] = {
      {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}, {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},   {"self_attn.v_proj", "attn_v"},           {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},   {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},        {"mlp.down_proj", "ffn_down"}};
  const size_t number = std::string("layers.").size(), dot = name.find('.', number);
  std::string rest = name.substr(dot + 1);
  for (const auto& [from, to] : parts)
    if (rest == from + ".weight") return "blk." + name.substr(number, dot - number) + "." + to + ".weight";
  FAIL("no GGUF name for " << name);
  return {};
}

/// A target that scales embeddings and caps logits, as Gemma's do, for a drafter that asks it.
class ScaledTarget final : public Model {
 public:
  ScaledTarget(Model& inner, float scale, float softcap) : inner_(inner), scale_(scale), softcap_(softcap) {}
  const ModelConfig& config() const override { return inner_.config(); }
  ModelEnds ends() const override {
    ModelEnds ends = inner_.ends();
    ends.embedding_scale = scale_;
    ends.logit_softcap = softcap_;
    return ends;
  }
  std::vector<CacheGroupSpec> cache_groups() const override { return inner_.cache_groups(); }
  void forward(const StepInputs& step, const KvViews& kv, Taps* taps) override { inner_.forward(step, kv, taps); }
  const float* head() override { return inner_.head(); }
  int64_t resident_bytes() const override { return inner_.resident_bytes(); }

 private:
  Model& inner_;
  const float scale_, softcap_;
};

DType stored_as(const DummyTensor& tensor, DType dtype) { return tensor.shape.size() == 1 ? DType::kF32 : dtype; }

}  // namespace

std::vector<std::string> golden_drafter_names() {
  return {"full",   "last-layer-first", "sliding", "sliding-noncausal", "narrow-window",
          "causal", "anchor-first",     "scaled",  "yarn"};
}

GoldenDrafter read_golden_drafter(const std::string& name) {
  std::ifstream file(std::string(SLIP_FIXTURES) + "/golden/drafter-" + name + ".json");
  const nlohmann::json root = nlohmann::json::parse(file);
  GoldenDrafter golden;
  golden.name = name;
  golden.config = root.at("config");
  golden.target.name = name;
  golden.target.config = root.at("target");
  golden.target.seed = root.at("seed").get<uint64_t>();
  root.at("ids").get_to(golden.ids);
  root.at("positions").get_to(golden.positions);
  root.at("taps").get_to(golden.taps);
  root.at("k").get_to(golden.k);
  root.at("v").get_to(golden.v);
  for (const auto& b : root.at("blocks"))
    golden.blocks.push_back({b.at("context").get<int32_t>(), b.at("rows").get<int32_t>(), b.at("hidden").get<std::vector<double>>(),
                             b.at("logits").get<std::vector<double>>(), b.at("drafts").get<std::vector<int32_t>>()});
  return golden;
}

MemoryCheckpoint drafter_safetensors(const GoldenDrafter& golden, DType dtype) {
  MemoryCheckpoint out(CheckpointKind::kSafetensors);
  out.set_file("config.json", golden.config.dump());
  for (const DummyTensor& tensor : drafter_tensors(config_of(golden), dtype))
    out.add(tensor.name, tensor.shape, values_of(golden, tensor), stored_as(tensor, dtype));
  return out;
}

MemoryCheckpoint drafter_gguf(const GoldenDrafter& golden, DType dtype) {
  const DrafterConfig c = config_of(golden);
  const ModelConfig& s = c.stack;
  const auto count = [](int64_t value) { return MetaValue(static_cast<uint64_t>(value)); };
  MemoryCheckpoint out(CheckpointKind::kGguf);
  out.set("general.architecture", std::string("dflash"));
  out.set("dflash.block_count", count(s.layers));
  out.set("dflash.embedding_length", count(s.hidden));
  out.set("dflash.feed_forward_length", count(s.ffn));
  out.set("dflash.attention.head_count", count(s.heads));
  out.set("dflash.attention.head_count_kv", count(s.kv_heads));
  out.set("dflash.attention.key_length", count(s.head_dim));
  out.set("dflash.attention.layer_norm_rms_epsilon", double{s.norm_eps});
  out.set("dflash.context_length", count(s.context_length));
  out.set("dflash.rope.freq_base", double{s.rope_theta});
  if (s.rope_scaling == RopeScaling::kYarn) {
    out.set("dflash.rope.scaling.type", std::string("yarn"));
    out.set("dflash.rope.scaling.factor", double{s.rope_factor});
    out.set("dflash.rope.scaling.original_context_length", count(s.rope_original_context));
  }
  out.set("dflash.block_size", count(c.block_rows));
  out.set("tokenizer.ggml.mask_token_id", count(c.mask_token));
  std::vector<int64_t> layers, slides;
  for (const int32_t tap : c.taps) layers.push_back(tap + 1);
  int32_t window = 0;
  bool all_causal = true, none_causal = true;
  for (const DrafterAttention& sees : c.attention) {
    slides.push_back(sees.window > 0);
    window = std::max(window, sees.window);
    all_causal = all_causal && sees.causal;
    none_causal = none_causal && !sees.causal;
  }
  out.set("dflash.target_layers", layers);
  if (window > 0) out.set("dflash.attention.sliding_window", count(window));
  if (window > 0) out.set("dflash.attention.sliding_window_pattern", slides);
  if (all_causal || none_causal) out.set("dflash.attention.causal", all_causal);
  if (c.anchor_first) out.set("dflash.sample_from_anchor", true);
  if (c.embedding_scale) out.set("dflash.embedding_scale", double{*c.embedding_scale});
  if (c.logit_softcap) out.set("dflash.final_logit_softcapping", double{*c.logit_softcap});
  if (c.logit_multiplier != 1) out.set("dflash.logit_scale", double{c.logit_multiplier});
  for (const DummyTensor& tensor : drafter_tensors(c, dtype))
    out.add(gguf_name(tensor.name), tensor.shape, values_of(golden, tensor), stored_as(tensor, dtype));
  return out;
}

std::vector<float> cache_row(const KvLayer& kv, const int32_t* table, bool key, int32_t position) {
  const int64_t block = table[position / kv.block_tokens];
  std::vector<float> out;
  for (int64_t h = 0; h < kv.kv_heads; ++h) {
    const int64_t row = (block * kv.kv_heads + h) * kv.block_tokens + position % kv.block_tokens;
    std::vector<float> head(static_cast<size_t>(kv.head_dim));
    dequantize_row(kv.dtype, static_cast<const std::byte*>(key ? kv.k : kv.v) + row * row_bytes(kv.dtype, kv.head_dim), head.data(),
                   kv.head_dim);
    out.insert(out.end(), head.begin(), head.end());
  }
  return out;
}

DraftRig::~DraftRig() {
  // All of them give their buffers back to the Ops.
  kv_.reset();
  drafter_.reset();
  target_.reset();
}

Result<std::unique_ptr<DraftRig>> DraftRig::make(Checkpoint& target, Checkpoint& drafter, const DraftRigOptions& options) {
  SLIP_TRY(const ModelConfig target_config, read_model_config(target));
  SLIP_TRY(const DrafterConfig config, read_drafter_config(drafter));
  std::unique_ptr<DraftRig> rig(new DraftRig);
  rig->ops_ = options.backend == "reference" ? make_reference_ops() : make_cpu_ops({.threads = 2, .isa = options.isa});
  if (options.backend == "checked") {
    rig->inner_ = std::move(rig->ops_);
    rig->ops_ = std::make_unique<CheckedOps>(*rig->inner_);
  }
  LoadOptions load;
  if (options.comm != nullptr) {
    rig->ops_->set_comm(options.comm);
    load.rank = options.comm->rank();
    load.ranks = options.comm->size();
  }
  load.max_rows = kTokens;
  load.max_logit_rows = 1;
  SLIP_TRY(rig->target_, load_model(target, target_config, *rig->ops_, load));
  DrafterOptions draft;
  draft.load = load;
  draft.load.max_rows = options.max_rows;
  draft.load.dummy = options.dummy;
  draft.load.dummy_seed = 1;
  draft.max_blocks = options.max_blocks;
  draft.first_cache_layer = target_config.layers;
  draft.load.notes = options.notes;
  draft.target_checkpoint = &target;
  ScaledTarget scaled(*rig->target_, options.target_scale, options.target_softcap);
  const bool as_is = options.target_scale == 1 && options.target_softcap == 0;
  SLIP_TRY(rig->drafter_, load_dflash_drafter(drafter, config, as_is ? *rig->target_ : scaled, *rig->ops_, draft));

  constexpr int32_t kEach = kTokens / kBlockTokens, kBlocks = kSequences * kEach;
  KvCacheShape shape;
  shape.groups = rig->target_->cache_groups();
  for (const CacheGroupSpec& group : rig->drafter_->cache_groups()) shape.groups.push_back(group);
  shape.blocks.assign(shape.groups.size(), kBlocks);
  shape.block_tokens = kBlockTokens;
  shape.dtype = options.cache_dtype;
  SLIP_TRY(KvCache cache, KvCache::create(*rig->ops_, shape));
  rig->kv_ = std::make_unique<KvCache>(std::move(cache));
  rig->tables_.resize(kSequences);
  rig->columns_.resize(kSequences);
  for (int32_t s = 0; s < kSequences; ++s) {
    for (size_t g = 0; g < shape.groups.size(); ++g) {
      std::vector<int32_t>& table = rig->tables_[static_cast<size_t>(s)].emplace_back();
      // 5 and 18 have no common divisor: a permutation of the blocks, shifted by the group.
      for (int32_t b = 0; b < kEach; ++b) table.push_back(((s * kEach + b) * 5 + static_cast<int32_t>(g)) % kBlocks);
    }
    for (const auto& table : rig->tables_[static_cast<size_t>(s)]) rig->columns_[static_cast<size_t>(s)].push_back(table.data());
  }
  rig->ops_->warm_up(std::max(kTokens, options.max_blocks * config.block_rows));
  return rig;
}

std::vector<float> DraftRig::run_target(std::span<const int32_t> ids) {
  const auto& layers = drafter_->config().taps;
  std::vector<float> out(ids.size() * layers.size() * static_cast<size_t>(target_->config().hidden));
  Taps taps{layers, out.data()};
  std::vector<int32_t> positions(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) positions[i] = static_cast<int32_t>(i);
  const auto rows = static_cast<int32_t>(ids.size());
  const SpanRows span{0, rows, 0, columns_[0].data(), static_cast<int32_t>(tables_[0][0].size())};
  const int32_t last = rows - 1;
  StepInputs step{rows, ids.data(), positions.data(), {&span, 1}, {&last, 1}};
  step.groups = static_cast<int32_t>(columns_[0].size());
  target_->forward(step, *kv_, &taps);
  return out;
}

void DraftRig::inject(std::span<const Chunk> chunks) {
  const size_t width = drafter_->config().taps.size() * static_cast<size_t>(target_->config().hidden);
  std::vector<float> taps;
  std::vector<int32_t> positions;
  std::vector<SpanRows> spans;
  for (const Chunk& chunk : chunks) {
    const auto& columns = columns_[static_cast<size_t>(chunk.sequence)];
    spans.push_back({static_cast<int32_t>(positions.size()), chunk.rows, chunk.first, columns.data(), kTokens / kBlockTokens});
    for (int32_t r = 0; r < chunk.rows; ++r) positions.push_back(chunk.first + r);
    const float* from = chunk.taps + static_cast<size_t>(chunk.first) * width;
    taps.insert(taps.end(), from, from + static_cast<size_t>(chunk.rows) * width);
  }
  StepInputs step{static_cast<int32_t>(positions.size()), nullptr, positions.data(), spans, {}};
  step.groups = static_cast<int32_t>(columns_[0].size());
  drafter_->inject(step, taps.data(), *kv_);
}

DraftBlock DraftRig::block(int32_t sequence, int32_t anchor, int32_t context, int32_t rows) const {
  return {anchor, context, rows, drafter_->config().drafts(rows), columns_[static_cast<size_t>(sequence)].data(),
          kTokens / kBlockTokens};
}

std::vector<std::vector<int32_t>> DraftRig::draft(std::span<const DraftBlock> blocks) {
  std::vector<std::vector<int32_t>> drafts(blocks.size());
  drafter_->draft(blocks, *kv_, drafts);
  return drafts;
}

std::vector<float> DraftRig::context_row(bool key, int32_t layer, int32_t sequence, int32_t position) const {
  const KvLayer kv = kv_->layer(drafter_->cache_layer(layer));
  return cache_row(kv, columns_[static_cast<size_t>(sequence)][static_cast<size_t>(kv.group)], key, position);
}

std::vector<float> DraftRig::hidden(int32_t rows) const {
  const float* from = drafter_->block_hidden();
  return {from, from + int64_t{rows} * drafter_->config().stack.hidden};
}

std::vector<float> DraftRig::scores(int32_t slots) const {
  const float* from = drafter_->slot_scores();
  return {from, from + int64_t{slots} * target_->config().vocab};
}

std::unique_ptr<DraftRig> draft_rig(Checkpoint& target, Checkpoint& drafter, const DraftRigOptions& options) {
  auto rig = DraftRig::make(target, drafter, options);
  INFO((rig.ok() ? std::string() : rig.error().message));
  REQUIRE(rig.ok());
  return std::move(rig).value();
}

}  // namespace slipstream::test
