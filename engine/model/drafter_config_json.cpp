// DrafterConfig from a config.json in the authors' layout: the stack's keys as Qwen3 spells them, DFlash's own at the top or
// in `dflash_config`. Knows keys; the relations shared with GGUF are in drafter_config.cpp.
#include <utility>

#include "engine/model/config_json.h"
#include "engine/model/config_readers.h"
#include "engine/model/drafter_family.h"
#include "engine/model/drafter_readers.h"

namespace slipstream {
namespace {

using nlohmann::json;

constexpr const char* kFile = "config.json";

/// Keys that published generations write at the top, in dflash_config, or in both.
class TwoPlaces {
 public:
  TwoPlaces(const JsonFields& top, const JsonFields& nested) : top_(top), nested_(nested) {}

  bool has(const char* key) const { return top_.has(key) || nested_.has(key); }
  /// Where to read the key; kCorrupt when both places have it and differ. The top when neither has it.
  Result<const JsonFields*> place(const char* key) const {
    if (top_.has(key) && nested_.has(key) && top_.at(key) != nested_.at(key))
      return corrupt(std::string(kFile) + ": '" + key + "' is " + top_.shown(key) + " at the top and " +
                     nested_.shown(key) + " in 'dflash_config'; remove the wrong one");
    return nested_.has(key) ? &nested_ : &top_;
  }
  Result<int64_t> integer(const char* key, int64_t low, int64_t high) const {
    SLIP_TRY(const JsonFields* fields, place(key));
    return fields->integer(key, low, high);
  }
  /// Nothing when absent or null.
  Result<std::optional<float>> number(const char* key, double low, double high) const {
    if (!has(key)) return std::optional<float>();
    SLIP_TRY(const JsonFields* fields, place(key));
    SLIP_TRY(const double value, fields->number(key, low, high));
    return std::optional<float>(static_cast<float>(value));
  }
  Result<std::optional<bool>> boolean(const char* key) const {
    if (!has(key)) return std::optional<bool>();
    SLIP_TRY(const JsonFields* fields, place(key));
    SLIP_TRY(const bool value, fields->boolean_or(key, false));
    return std::optional<bool>(value);
  }

 private:
  const JsonFields& top_;
  const JsonFields& nested_;
};

/// Whether a key is there and says more than "off".
bool is_on(const JsonFields& fields, const char* key) {
  return fields.has(key) && fields.at(key) != json(0) && fields.at(key) != json(false) && fields.at(key) != json("none");
}

Status refuse_foreign(const JsonFields& root, const JsonFields& nested) {
  for (const JsonFields* fields : {&root, &nested}) {
    const std::string where = fields == &root ? "config.json: key" : "config.json dflash_config: key";
    if (auto error = foreign_family_key(where, [&](const char* key) { return is_on(*fields, key); })) return *error;
    for (const char* key : {"projector_type", "model_type"}) {
      if (!fields->has(key)) continue;
      SLIP_TRY(const std::string name, fields->text(key));
      if (auto error = foreign_family_name(std::string("config.json: ") + key, name)) return *error;
    }
  }
  if (!root.has("architectures")) return root.missing("architectures");
  const json& names = root.at("architectures");
  if (!names.is_array() || names.size() != 1 || !names[0].is_string())
    return root.bad("architectures", "a list of one class name");
  const std::string name = names[0].get<std::string>();
  if (auto error = foreign_family_name("config.json: architecture", name)) return *error;
  if (name.find("DFlash") == std::string::npos) return not_a_drafter("config.json: architecture", name);
  return Ok{};
}

/// Variants of DFlash whose extra arithmetic is not there.
Status refuse_variants(const JsonFields& root, const TwoPlaces& both) {
  const auto refuse = [](const char* key, const std::string& why) {
    return unsupported(std::string("config.json: '") + key + "' " + why + ", which is not served for drafters", key);
  };
  for (const char* key : {"attention_sink_bias", "attention_bias"}) {
    SLIP_TRY(const std::optional<bool> on, both.boolean(key));
    if (on.value_or(false)) return refuse(key, "is on");
  }
  SLIP_TRY(const std::optional<bool> neox, both.boolean("is_neox_style"));
  if (!neox.value_or(true)) return refuse("is_neox_style", "is false (interleaved rotary pairs)");
  SLIP_TRY(const std::optional<float> value_scale, both.number("attention_value_scale", -1e6, 1e6));
  if (value_scale.value_or(1) != 1) return refuse("attention_value_scale", "is not 1");
  if (both.has("draft_vocab_size")) {
    SLIP_TRY(const int64_t reduced, both.integer("draft_vocab_size", 1, kMaxVocab));
    SLIP_TRY(const int64_t vocab, root.integer_or("vocab_size", reduced, 1, kMaxVocab));
    if (reduced != vocab)
      return refuse("draft_vocab_size", "is " + std::to_string(reduced) + " of " + std::to_string(vocab) + " tokens");
  }
  if (root.has("hidden_act")) {
    SLIP_TRY(const std::string act, root.text("hidden_act"));
    if (act != "silu" && act != "swish") return refuse("hidden_act", "is " + root.shown("hidden_act") + ", not silu");
  }
  if (root.has("quantization_config")) return refuse("quantization_config", "is given");
  return Ok{};
}

/// MiMo's drafters bring an embedding of the mask token of their own, in place of the target's row.
Status refuse_mask_embedding(const Checkpoint& checkpoint) {
  constexpr const char* kOwnMask = "mask_embedding.pt";
  const auto file = checkpoint.read_side_file(kOwnMask, kMaxConfigBytes);
  if (!file.ok() && file.error().code == ErrorCode::kNotFound) return Ok{};
  return unsupported(std::string(kOwnMask) + ": a drafter with a mask embedding of its own is not served",
                     "speculative_config.model");
}

Result<std::vector<int32_t>> read_taps(const TwoPlaces& both) {
  const char* key = "target_layer_ids";
  if (!both.has(key) && (both.has("aux_hidden_state_layer_ids") || both.has("eagle_aux_hidden_state_layer_ids")))
    return unsupported("config.json: layers are given as auxiliary hidden state ids, which count from the embedding; write "
                       "'target_layer_ids' with each of them less 1");
  SLIP_TRY(const JsonFields* fields, both.place(key));
  if (!fields->has(key)) return fields->missing(key);
  const json& list = fields->at(key);
  const std::string expected = "a list of 1 to " + std::to_string(kMaxTaps) + " layer indices from 0";
  if (!list.is_array() || list.empty() || list.size() > static_cast<size_t>(kMaxTaps)) return fields->bad(key, expected);
  std::vector<int32_t> taps;
  for (const json& item : list) {
    if (!item.is_number_integer()) return fields->bad(key, expected);
    if (item == json(-1))
      return unsupported("config.json: 'target_layer_ids' names -1, the output of the embedding, which is not served", key);
    if (item < json(0) || item >= json(kMaxLayers)) return fields->bad(key, expected);
    taps.push_back(item.get<int32_t>());
  }
  return taps;
}

/// Which layers slide: layer_types, else the rule of Qwen3's class; MiMo's use_swa makes all of them slide.
Result<std::vector<bool>> read_sliding(const JsonFields& root, int32_t layers, bool use_swa) {
  std::vector<bool> sliding(static_cast<size_t>(layers), use_swa);
  // A list of layer types speaks for itself.
  bool use = root.has("layer_types");
  if (root.has("use_sliding_window")) {
    SLIP_TRY(use, root.boolean_or("use_sliding_window", false));
  }
  if (root.has("layer_types")) {
    const json& types = root.at("layer_types");
    const std::string expected = "a list of " + std::to_string(layers) + " entries, full_attention or sliding_attention";
    if (!types.is_array() || types.size() != sliding.size()) return root.bad("layer_types", expected);
    bool any = false;
    for (size_t l = 0; l < sliding.size(); ++l) {
      const bool slides = types[l] == "sliding_attention";
      if (!slides && types[l] != "full_attention") return root.bad("layer_types", expected);
      if (use_swa && !slides)
        return corrupt("config.json: 'layer_types' has full layers, but 'use_swa' makes every layer slide; remove the wrong one");
      sliding[l] = slides;
      any = any || slides;
    }
    if (any && !use)
      return corrupt("config.json: 'layer_types' has sliding layers, but 'use_sliding_window' is false; remove the wrong one");
  } else if (use && !use_swa) {
    SLIP_TRY(const int64_t first, root.integer_or("max_window_layers", 28, 0, kMaxLayers));
    for (size_t l = static_cast<size_t>(first); l < sliding.size(); ++l) sliding[l] = true;
  }
  return sliding;
}

/// Windows and causality of each layer. A sliding layer is causal unless a key says otherwise, a full one is not: what the
/// public checkpoints that say nothing were trained with (sglang #34524 measured the other reading on Gemma 4).
Status read_attention(const JsonFields& root, const JsonFields& nested, const TwoPlaces& both, DrafterConfig& c) {
  for (const char* top : {"layer_types", "use_sliding_window", "max_window_layers"})
    if (nested.has(top))
      return corrupt(std::string("config.json: '") + top + "' stands in 'dflash_config', where nobody reads it; put it at the top");
  SLIP_TRY(const std::optional<bool> swa, both.boolean("use_swa"));
  SLIP_TRY(const std::vector<bool> sliding, read_sliding(root, c.stack.layers, swa.value_or(false)));
  std::optional<bool> causal;
  for (const auto& [fields, key] : {std::pair{&root, "is_causal"}, {&root, "causal"}, {&nested, "is_causal"}, {&nested, "causal"}}) {
    if (!fields->has(key)) continue;
    SLIP_TRY(const bool value, fields->boolean_or(key, false));
    if (causal && *causal != value)
      return corrupt(std::string("config.json: '") + key + (fields == &nested ? "' in 'dflash_config'" : "'") +
                     " contradicts another key of causality; remove the wrong one");
    causal = value;
  }
  if (!causal && swa.value_or(false)) causal = false;

  const char* key = swa.value_or(false) && both.has("swa_window_size") ? "swa_window_size" : "sliding_window";
  for (const bool slides : sliding) {
    DrafterAttention layer{0, causal.value_or(slides)};
    if (slides) {
      SLIP_TRY(const int64_t window, both.integer(key, 1, kMaxContext));
      layer.window = static_cast<int32_t>(window);
    }
    c.attention.push_back(layer);
  }
  return Ok{};
}

Status read_stack(const JsonFields& root, ModelConfig& s) {
  SLIP_TRY(const int64_t layers, root.integer("num_hidden_layers", 1, kMaxLayers));
  SLIP_TRY(const int64_t hidden, root.integer("hidden_size", 1, kMaxHidden));
  SLIP_TRY(const int64_t heads, root.integer("num_attention_heads", 1, kMaxHeads));
  SLIP_TRY(const int64_t kv_heads, root.integer_or("num_key_value_heads", heads, 1, kMaxHeads));
  SLIP_TRY(const int64_t head_dim, root.integer("head_dim", 1, kMaxHeadDim));
  SLIP_TRY(const int64_t ffn, root.integer("intermediate_size", 1, kMaxFfn));
  SLIP_TRY(const int64_t context, root.integer_or("max_position_embeddings", 32768, 1, kMaxContext));
  if (!root.has("rms_norm_eps")) return root.missing("rms_norm_eps");
  SLIP_TRY(const double eps, root.number_or("rms_norm_eps", 1e-6, 0, 0.1));
  s.architecture = "dflash";
  s.layers = static_cast<int32_t>(layers);
  s.hidden = static_cast<int32_t>(hidden);
  s.heads = static_cast<int32_t>(heads);
  s.kv_heads = static_cast<int32_t>(kv_heads);
  s.head_dim = s.rope_dim = static_cast<int32_t>(head_dim);
  s.ffn = static_cast<int32_t>(ffn);
  s.context_length = static_cast<int32_t>(context);
  s.norm_eps = static_cast<float>(eps);
  s.qk_norm = true;
  if (root.has("vocab_size")) {
    SLIP_TRY(const int64_t vocab, root.integer("vocab_size", 1, kMaxVocab));
    s.vocab = static_cast<int32_t>(vocab);
  }
  const auto has_theta = [](const json& object) { return object.is_object() && object.contains("rope_theta"); };
  if (!root.has("rope_theta") && !(root.has("rope_parameters") && has_theta(root.at("rope_parameters"))) &&
      !(root.has("rope_scaling") && has_theta(root.at("rope_scaling"))))
    return root.missing("rope_theta");
  return read_json_rope(root, s);
}

}  // namespace

Result<DrafterConfig> read_safetensors_drafter(const Checkpoint& checkpoint) {
  SLIP_TRY(const std::string text, checkpoint.read_side_file(kFile, kMaxConfigBytes));
  SLIP_TRY(const json document, parse_json_object(kFile, text));
  SLIP_TRY(DrafterConfig config, parse_drafter_json(document));
  SLIP_RETURN_IF_ERROR(refuse_mask_embedding(checkpoint));
  return config;
}

Result<DrafterConfig> parse_drafter_json(const json& document) {
  DrafterConfig c;
  const JsonFields root(kFile, document, &c.stack.defaults);
  static const json kEmpty = json::object();
  const json& inner = root.has("dflash_config") ? root.at("dflash_config") : kEmpty;
  if (!inner.is_object()) return root.bad("dflash_config", "an object");
  const JsonFields nested("config.json dflash_config", inner, &c.stack.defaults);
  const TwoPlaces both(root, nested);

  SLIP_RETURN_IF_ERROR(refuse_foreign(root, nested));
  SLIP_RETURN_IF_ERROR(refuse_variants(root, both));
  SLIP_RETURN_IF_ERROR(read_stack(root, c.stack));
  SLIP_TRY(c.taps, read_taps(both));
  SLIP_TRY(const int64_t block, both.integer("block_size", 2, kMaxBlockRows));
  SLIP_TRY(const int64_t mask, both.integer("mask_token_id", 0, kMaxVocab - 1));
  c.block_rows = static_cast<int32_t>(block);
  c.mask_token = static_cast<int32_t>(mask);
  c.target_hidden = c.stack.hidden;
  if (both.has("target_hidden_size")) {
    SLIP_TRY(const int64_t width, both.integer("target_hidden_size", 1, kMaxHidden));
    c.target_hidden = static_cast<int32_t>(width);
  }
  if (both.has("num_target_layers")) {
    SLIP_TRY(const int64_t layers, both.integer("num_target_layers", 1, kMaxLayers));
    c.target_layers = static_cast<int32_t>(layers);
  }
  SLIP_RETURN_IF_ERROR(read_attention(root, nested, both, c));

  // DeepSpec's trainer leaves num_anchors behind; an explicit key speaks first.
  SLIP_TRY(const std::optional<bool> from_anchor, both.boolean("sample_from_anchor"));
  c.anchor_first = from_anchor.value_or(both.has("num_anchors"));

  SLIP_TRY(c.embedding_scale, both.number("input_embedding_scale", 1e-6, 1e6));
  SLIP_TRY(c.logit_softcap, both.number("final_logit_softcapping", 0, 1e6));
  SLIP_TRY(const std::optional<float> multiplier, both.number("output_multiplier", 1e-6, 1e6));
  c.logit_multiplier = multiplier.value_or(1);

  // Each tensor states its own dtype; this one is for weights that are not there (dummy).
  const char* dtype_key = root.has("dtype") ? "dtype" : "torch_dtype";
  if (root.has(dtype_key)) {
    SLIP_TRY(const std::string dtype, root.text(dtype_key));
    if (dtype == "float32") c.stack.weights_dtype = DType::kF32;
    if (dtype == "float16") c.stack.weights_dtype = DType::kF16;
  }
  return c;
}

}  // namespace slipstream
