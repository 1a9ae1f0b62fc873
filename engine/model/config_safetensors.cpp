// ModelConfig from the config.json of a Hugging Face folder, in the spelling of transformers 4 (rope_theta,
// rope_scaling) and 5 (rope_parameters). Knows keys; the ranges shared with GGUF are in model_config.cpp.
#include <algorithm>

#include "engine/model/architecture.h"
#include "engine/model/config_json.h"
#include "engine/model/config_readers.h"

namespace slipstream {

Status read_json_rope(const JsonFields& root, ModelConfig& c) {
  using nlohmann::json;
  static const json kEmpty = json::object();
  const char* key = root.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json& object = root.has(key) ? root.at(key) : kEmpty;
  if (!object.is_object()) return root.bad(key, "an object");
  for (const auto& [name, value] : object.items())
    if (value.is_object())
      return unsupported(std::string("config.json: '") + key + "' has per-layer-type entries ('" + name.substr(0, 40) +
                             "'), which are not served for this architecture",
                         key);
  const JsonFields rope(std::string("config.json ") + key, object, &c.defaults);

  const bool inside = rope.has("rope_theta"), outside = root.has("rope_theta");
  SLIP_TRY(const double theta, (inside ? rope : root).number_or("rope_theta", 10000.0, 2.0, 1e12));
  if (inside && outside) {
    SLIP_TRY(const double other, root.number("rope_theta", 2.0, 1e12));
    if (other != theta)
      return corrupt(std::string("config.json: 'rope_theta' stands at the top and in '") + key +
                     "' with different values; remove the wrong one");
  }
  c.rope_theta = static_cast<float>(theta);

  // transformers ignores a partial factor under plain RoPE of these classes and obeys it under yarn: no such model exists.
  for (const JsonFields* fields : {&rope, &root}) {
    if (!fields->has("partial_rotary_factor")) continue;
    SLIP_TRY(const double factor, fields->number("partial_rotary_factor", 0, 1));
    if (factor != 1)
      return unsupported("config.json: 'partial_rotary_factor' other than 1 is not served for this architecture", key);
  }

  std::string type = "default";
  if (rope.has("rope_type")) {
    SLIP_TRY(type, rope.text("rope_type"));
  } else if (rope.has("type")) {
    SLIP_TRY(type, rope.text("type"));
  } else if (rope.has("factor")) {
    return rope.missing("rope_type");
  }
  if (type == "default") return Ok{};
  if (type != "linear" && type != "llama3" && type != "yarn")
    return unsupported("config.json: rope type '" + type.substr(0, 40) +
                           "' is not served; served: default, linear, llama3, yarn",
                       key);

  SLIP_TRY(const double factor, rope.number("factor", 1.0, 1e6));
  c.rope_factor = static_cast<float>(factor);
  if (type == "linear") {
    c.rope_scaling = RopeScaling::kLinear;
    return Ok{};
  }
  const char* original = "original_max_position_embeddings";
  if (type == "llama3") {
    c.rope_scaling = RopeScaling::kLlama3;
    SLIP_TRY(const double low, rope.number("low_freq_factor", 1e-3, 1e6));
    SLIP_TRY(const double high, rope.number("high_freq_factor", 1e-3, 1e6));
    if (!(high > low)) return rope.bad("high_freq_factor", "a number above low_freq_factor");
    SLIP_TRY(const int64_t context, rope.integer(original, 1, kMaxContext));
    c.rope_low_freq_factor = static_cast<float>(low);
    c.rope_high_freq_factor = static_cast<float>(high);
    c.rope_original_context = static_cast<int32_t>(context);
    return Ok{};
  }
  c.rope_scaling = RopeScaling::kYarn;
  SLIP_TRY(const int64_t context,
           (rope.has(original) ? rope : root).integer_or(original, c.context_length, 1, kMaxContext));
  SLIP_TRY(const double fast, rope.number_or("beta_fast", 32, 1e-3, 1e6));
  SLIP_TRY(const double slow, rope.number_or("beta_slow", 1, 1e-3, 1e6));
  if (!(fast > slow)) return corrupt("config.json " + std::string(key) + ": 'beta_fast' is not above 'beta_slow'");
  SLIP_TRY(c.rope_truncate, rope.boolean_or("truncate", true));
  c.rope_original_context = static_cast<int32_t>(context);
  c.rope_beta_fast = static_cast<float>(fast);
  c.rope_beta_slow = static_cast<float>(slow);
  if (rope.has("attention_factor")) {
    SLIP_TRY(const double attention, rope.number("attention_factor", 1e-3, 1e3));
    c.rope_attention_factor = static_cast<float>(attention);
  } else if (rope.has("mscale") && rope.has("mscale_all_dim")) {
    SLIP_TRY(const double mscale, rope.number("mscale", 0, 1e3));
    SLIP_TRY(const double all, rope.number("mscale_all_dim", 0, 1e3));
    // As DeepSeek's config means it; a zero in either falls back to the plain factor.
    c.rope_attention_factor = static_cast<float>(
        mscale != 0 && all != 0 ? yarn_mscale(factor, mscale) / yarn_mscale(factor, all) : yarn_mscale(factor, 1));
  } else {
    c.rope_attention_factor = static_cast<float>(yarn_mscale(factor, 1));
  }
  return Ok{};
}

namespace {

using nlohmann::json;

Status read_window(const JsonFields& root, const Architecture& a, ModelConfig& c) {
  if (a.window == WindowRule::kAllLayers) {
    // An explicit null means full attention; an absent key means the class's default.
    int64_t window = 0;
    if (root.has("sliding_window") || !root.contains("sliding_window")) {
      SLIP_TRY(window, root.integer_or("sliding_window", a.default_window, 1, kMaxContext));
    }
    c.sliding_window = static_cast<int32_t>(window);
  } else if (a.window == WindowRule::kUpperLayers) {
    SLIP_TRY(const bool use, root.boolean_or("use_sliding_window", false));
    const bool given_null = root.contains("sliding_window") && !root.has("sliding_window");
    if (use && !given_null) {
      SLIP_TRY(const int64_t window, root.integer_or("sliding_window", a.default_window, 1, kMaxContext));
      SLIP_TRY(const int64_t first, root.integer_or("max_window_layers", 28, 0, kMaxLayers));
      c.sliding_window = first < c.layers ? static_cast<int32_t>(window) : 0;
      c.first_window_layer = c.sliding_window == 0 ? 0 : static_cast<int32_t>(first);
    }
  }
  if (!root.has("layer_types")) return Ok{};

  // transformers 5 writes the same fact layer by layer, and obeys it.
  const json& types = root.at("layer_types");
  const std::string expected = "a list of " + std::to_string(c.layers) +
                               " entries, full_attention first and then sliding_attention";
  if (!types.is_array() || static_cast<int64_t>(types.size()) != c.layers) return root.bad("layer_types", expected);
  int32_t full = 0;
  for (int32_t i = 0; i < c.layers; ++i) {
    const json& type = types[static_cast<size_t>(i)];
    const bool is_full = type == "full_attention";
    if (!is_full && type != "sliding_attention") return root.bad("layer_types", expected);
    if (is_full && full < i) return root.bad("layer_types", expected);
    full += is_full;
  }
  if (full == c.layers) {
    c.sliding_window = c.first_window_layer = 0;
  } else if (c.sliding_window == 0) {
    return corrupt("config.json: 'layer_types' has sliding layers, but no 'sliding_window' is in force");
  } else {
    c.first_window_layer = full;
  }
  return Ok{};
}

}  // namespace

Result<ModelConfig> read_safetensors_config(const Checkpoint& checkpoint) {
  SLIP_TRY(const std::string text, checkpoint.read_side_file("config.json", kMaxConfigBytes));
  SLIP_TRY(const json document, parse_json_object("config.json", text));
  ModelConfig c;
  const JsonFields root("config.json", document, &c.defaults);

  if (!root.has("architectures")) return root.missing("architectures");
  const json& names = root.at("architectures");
  if (!names.is_array() || names.size() != 1 || !names[0].is_string())
    return root.bad("architectures", "a list of one class name");
  const std::string hf_class = names[0].get<std::string>();
  const Architecture* a = find_architecture_by_hf_class(hf_class);
  if (a == nullptr) return architecture_refusal(hf_class);
  SLIP_TRY(c.fp8, read_fp8_scheme(root));
  c.architecture = a->name;

  SLIP_TRY(const int64_t layers, root.integer("num_hidden_layers", 1, kMaxLayers));
  SLIP_TRY(const int64_t hidden, root.integer("hidden_size", 1, kMaxHidden));
  SLIP_TRY(const int64_t heads, root.integer("num_attention_heads", 1, kMaxHeads));
  SLIP_TRY(const int64_t ffn, root.integer("intermediate_size", 1, kMaxFfn));
  SLIP_TRY(const int64_t vocab, root.integer("vocab_size", 1, kMaxVocab));
  const int64_t default_kv = a->default_kv_heads < 0 ? heads : a->default_kv_heads;
  // An explicit null means multi-head attention, whatever the class's default is.
  const bool kv_null = root.contains("num_key_value_heads") && !root.has("num_key_value_heads");
  SLIP_TRY(const int64_t kv_heads, root.integer_or("num_key_value_heads", kv_null ? heads : default_kv, 1, kMaxHeads));
  const int64_t default_dim = a->default_head_dim > 0 ? a->default_head_dim : hidden / heads;
  SLIP_TRY(const int64_t head_dim, root.integer_or("head_dim", default_dim, 1, kMaxHeadDim));
  SLIP_TRY(const int64_t context, root.integer_or("max_position_embeddings", a->default_context, 1, kMaxContext));
  SLIP_TRY(const double eps, root.number_or("rms_norm_eps", 1e-6, 0, 0.1));
  c.layers = static_cast<int32_t>(layers);
  c.hidden = static_cast<int32_t>(hidden);
  c.heads = static_cast<int32_t>(heads);
  c.kv_heads = static_cast<int32_t>(kv_heads);
  c.head_dim = static_cast<int32_t>(head_dim);
  c.ffn = static_cast<int32_t>(ffn);
  c.vocab = static_cast<int32_t>(vocab);
  c.context_length = static_cast<int32_t>(context);
  c.norm_eps = static_cast<float>(eps);
  c.rope_dim = c.head_dim;

  if (root.has("hidden_act")) {
    SLIP_TRY(const std::string act, root.text("hidden_act"));
    if (act != "silu" && act != "swish")
      return unsupported("config.json: 'hidden_act' is '" + act.substr(0, 40) + "', only silu is served", "hidden_act");
  }
  SLIP_TRY(c.tied_embedding, root.boolean_or("tie_word_embeddings", false));
  c.qkv_bias = a->qkv_bias;
  if (a->attention_bias_key) {
    SLIP_TRY(const bool bias, root.boolean_or("attention_bias", false));
    c.qkv_bias = c.o_bias = bias;
  }
  if (a->mlp_bias_key) {
    SLIP_TRY(c.mlp_bias, root.boolean_or("mlp_bias", false));
  }
  c.qk_norm = a->qk_norm;
  c.rope_style = RopeStyle::kHalfSplit;
  SLIP_RETURN_IF_ERROR(read_json_rope(root, c));
  SLIP_RETURN_IF_ERROR(read_window(root, *a, c));

  // Each tensor states its own dtype; this one is for weights that are not there (--load-format dummy).
  const char* dtype_key = root.has("dtype") ? "dtype" : "torch_dtype";
  if (root.has(dtype_key)) {
    SLIP_TRY(const std::string dtype, root.text(dtype_key));
    if (dtype == "float32") c.weights_dtype = DType::kF32;
    if (dtype == "float16") c.weights_dtype = DType::kF16;
  }

  SLIP_TRY(c.eos_ids, root.ids("eos_token_id"));
  SLIP_TRY(const std::vector<int32_t> bos, root.ids("bos_token_id"));
  if (!bos.empty()) c.bos_id = bos[0];
  return c;
}

}  // namespace slipstream
