// DrafterConfig from the metadata of a GGUF file of architecture `dflash` (key names as llama.cpp's converter writes them).
// Knows keys; the relations shared with config.json are in drafter_config.cpp.
#include <algorithm>

#include "engine/model/config_meta.h"
#include "engine/model/config_readers.h"
#include "engine/model/drafter_family.h"
#include "engine/model/drafter_readers.h"

namespace slipstream {
namespace {

Status refuse_foreign(const std::string& name, const MetaFields& arch) {
  if (auto error = foreign_family_name("GGUF: architecture", name)) return *error;
  if (name != "dflash") return not_a_drafter("GGUF: architecture", name);
  const auto is_on = [&](const char* key) {
    const MetaValue* value = arch.find(key);
    return value != nullptr && *value != MetaValue(false) && *value != MetaValue(int64_t{0}) && *value != MetaValue(uint64_t{0});
  };
  if (auto error = foreign_family_key("GGUF: key", is_on)) return *error;
  for (const char* key : {"hyper_connection_count", "expert_count", "attention.value_scale"})
    if (is_on(key))
      return unsupported("GGUF: key 'dflash." + std::string(key) + "' asks for layers that are not served for drafters",
                         "speculative_config.model");
  return Ok{};
}

Status read_stack(const Checkpoint& checkpoint, const MetaFields& arch, ModelConfig& s) {
  SLIP_TRY(const int64_t layers, arch.integer("block_count", 1, kMaxLayers));
  SLIP_TRY(const int64_t hidden, arch.integer("embedding_length", 1, kMaxHidden));
  SLIP_TRY(const int64_t ffn, arch.integer("feed_forward_length", 1, kMaxFfn));
  SLIP_TRY(const int64_t heads, arch.integer("attention.head_count", 1, kMaxHeads));
  SLIP_TRY(const int64_t kv_heads, arch.integer_or("attention.head_count_kv", heads, 1, kMaxHeads));
  SLIP_TRY(const int64_t head_dim, arch.integer("attention.key_length", 1, kMaxHeadDim));
  SLIP_TRY(const int64_t context, arch.integer("context_length", 1, kMaxContext));
  SLIP_TRY(const double eps, arch.number("attention.layer_norm_rms_epsilon", 0, 0.1));
  SLIP_RETURN_IF_ERROR(check_gguf_value_length(arch, head_dim));
  s.architecture = "dflash";
  s.layers = static_cast<int32_t>(layers);
  s.hidden = static_cast<int32_t>(hidden);
  s.ffn = static_cast<int32_t>(ffn);
  s.heads = static_cast<int32_t>(heads);
  s.kv_heads = static_cast<int32_t>(kv_heads);
  s.head_dim = static_cast<int32_t>(head_dim);
  s.context_length = static_cast<int32_t>(context);
  s.norm_eps = static_cast<float>(eps);
  s.qk_norm = true;
  if (arch.has("vocab_size")) {
    SLIP_TRY(const int64_t vocab, arch.integer("vocab_size", 1, kMaxVocab));
    s.vocab = static_cast<int32_t>(vocab);
  }
  if (!arch.has("rope.freq_base")) return corrupt("GGUF: key 'dflash.rope.freq_base' is missing");
  return read_gguf_rope(checkpoint, arch, s);
}

/// The converter counts layers as "input of layer i", which is the output of layer i - 1.
Result<std::vector<int32_t>> read_taps(const MetaFields& arch) {
  SLIP_TRY(const std::vector<int64_t> list, arch.integers("target_layers"));
  const std::string key = "GGUF: key 'dflash.target_layers' ";
  if (list.empty() || list.size() > static_cast<size_t>(kMaxTaps))
    return corrupt(key + "holds " + std::to_string(list.size()) + " layers, expected 1 to " + std::to_string(kMaxTaps));
  std::vector<int32_t> taps;
  for (const int64_t layer : list) {
    if (layer == 0) return unsupported(key + "names 0, the output of the embedding, which is not served");
    if (layer < 0 || layer > kMaxLayers)
      return corrupt(key + "holds " + std::to_string(layer) + ", expected 1 to " + std::to_string(kMaxLayers));
    taps.push_back(static_cast<int32_t>(layer) - 1);
  }
  return taps;
}

Status read_attention(const MetaFields& arch, DrafterConfig& c) {
  int64_t window = 0;
  if (arch.has("attention.sliding_window")) {
    SLIP_TRY(window, arch.integer("attention.sliding_window", 0, kMaxContext));
  }
  const char* pattern_key = "attention.sliding_window_pattern";
  SLIP_TRY(std::vector<int64_t> slides, arch.integers(pattern_key));
  if (window == 0) {
    if (std::ranges::find(slides, 1) != slides.end())
      return corrupt(std::string("GGUF: key 'dflash.") + pattern_key + "' names sliding layers, but 'dflash.attention.sliding_window' is "
                     "missing or 0");
    slides.assign(static_cast<size_t>(c.stack.layers), 0);
  }
  if (slides.size() != static_cast<size_t>(c.stack.layers))
    return corrupt(std::string("GGUF: key 'dflash.") + pattern_key + "' has " + std::to_string(slides.size()) +
                   " entries for " + std::to_string(c.stack.layers) + " layers");
  std::optional<bool> causal;
  if (arch.has("attention.causal")) {
    SLIP_TRY(causal, arch.boolean("attention.causal"));
  }
  for (const int64_t slide : slides)
    c.attention.push_back({slide != 0 ? static_cast<int32_t>(window) : 0, causal.value_or(slide != 0)});
  return Ok{};
}

Result<std::optional<float>> read_number(const MetaFields& arch, const char* key, double low, double high) {
  if (!arch.has(key)) return std::optional<float>();
  SLIP_TRY(const double value, arch.number(key, low, high));
  return std::optional<float>(static_cast<float>(value));
}

}  // namespace

Result<DrafterConfig> read_gguf_drafter(const Checkpoint& checkpoint) {
  DrafterConfig c;
  const MetaFields general(checkpoint, "", &c.stack.defaults);
  SLIP_TRY(const std::string name, general.text("general.architecture"));
  const MetaFields arch(checkpoint, name + ".", &c.stack.defaults);
  SLIP_RETURN_IF_ERROR(refuse_foreign(name, arch));
  SLIP_RETURN_IF_ERROR(read_stack(checkpoint, arch, c.stack));
  SLIP_TRY(c.taps, read_taps(arch));
  SLIP_TRY(const int64_t block, arch.integer("block_size", 2, kMaxBlockRows));
  const MetaFields tokens(checkpoint, "tokenizer.ggml.", &c.stack.defaults);
  SLIP_TRY(const int64_t mask, tokens.integer("mask_token_id", 0, kMaxVocab - 1));
  c.block_rows = static_cast<int32_t>(block);
  c.mask_token = static_cast<int32_t>(mask);
  c.target_hidden = c.stack.hidden;
  SLIP_RETURN_IF_ERROR(read_attention(arch, c));
  if (arch.has("sample_from_anchor")) {
    SLIP_TRY(c.anchor_first, arch.boolean("sample_from_anchor"));
  }
  SLIP_TRY(c.embedding_scale, read_number(arch, "embedding_scale", 1e-6, 1e6));
  SLIP_TRY(c.logit_softcap, read_number(arch, "final_logit_softcapping", 0, 1e6));
  SLIP_TRY(const std::optional<float> multiplier, read_number(arch, "logit_scale", 1e-6, 1e6));
  c.logit_multiplier = multiplier.value_or(1);
  return c;
}

nlohmann::json stated_by_gguf(const Checkpoint& checkpoint) {
  nlohmann::json out = nlohmann::json::object();
  std::vector<std::string> defaults;
  const MetaFields arch(checkpoint, "dflash.", &defaults), tokens(checkpoint, "tokenizer.ggml.", &defaults);
  const auto take = [&](const auto& value, const char* name) {
    if (value.ok()) out[name] = *value;
  };
  for (const auto& [key, name] : {std::pair{"context_length", "max_position_embeddings"}, {"block_size", "block_size"}})
    if (arch.has(key)) take(arch.integer(key, 1, kMaxContext), name);
  if (tokens.has("mask_token_id")) take(tokens.integer("mask_token_id", 0, kMaxVocab - 1), "mask_token_id");
  for (const auto& [key, name] : {std::pair{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, {"rope.freq_base", "rope_theta"},
                                  {"embedding_scale", "input_embedding_scale"}, {"final_logit_softcapping", "final_logit_softcapping"},
                                  {"logit_scale", "output_multiplier"}})
    if (arch.has(key)) take(arch.number(key, 0, 1e12), name);
  for (const auto& [key, name] : {std::pair{"attention.causal", "is_causal"}, {"sample_from_anchor", "sample_from_anchor"}})
    if (arch.has(key)) take(arch.boolean(key), name);
  if (const auto taps = read_taps(arch); taps.ok()) out["target_layer_ids"] = *taps;
  DrafterConfig sees;
  if (const auto slides = arch.integers("attention.sliding_window_pattern"); slides.ok()) sees.stack.layers = static_cast<int32_t>(slides->size());
  if (sees.stack.layers > 0 && read_attention(arch, sees).ok()) {
    for (const DrafterAttention& layer : sees.attention) {
      out["layer_types"].push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
      if (layer.window > 0) out["sliding_window"] = layer.window;
    }
  }
  return out;
}

}  // namespace slipstream
