// ModelConfig from GGUF metadata (key names of the public GGUF documentation). Knows keys and
// which tensors state a fact that no key does (biases, a tied head, RoPE divisors).
#include <algorithm>
#include <cmath>

#include "engine/model/architecture.h"
#include "engine/model/config_meta.h"
#include "engine/model/config_readers.h"
#include "engine/model/float_values.h"

namespace slipstream {

Status check_gguf_value_length(const MetaFields& arch, int64_t head_dim) {
  if (!arch.has("attention.value_length")) return Ok{};
  SLIP_TRY(const int64_t value_dim, arch.integer("attention.value_length", 1, kMaxHeadDim));
  if (value_dim != head_dim)
    return unsupported("GGUF: attention.value_length " + std::to_string(value_dim) + " differs from key_length " +
                       std::to_string(head_dim) + ", which is not served");
  return Ok{};
}

Status read_gguf_rope(const Checkpoint& checkpoint, const MetaFields& arch, ModelConfig& c) {
  SLIP_TRY(const double theta, arch.number_or("rope.freq_base", 10000.0, 2.0, 1e12));
  SLIP_TRY(const int64_t dim, arch.integer_or("rope.dimension_count", c.head_dim, 2, c.head_dim));
  c.rope_theta = static_cast<float>(theta);
  c.rope_dim = static_cast<int32_t>(dim);

  if (const TensorEntry* freqs = checkpoint.find("rope_freqs.weight")) {
    if (freqs->shape != std::vector<int64_t>{dim / 2})
      return corrupt("GGUF: 'rope_freqs.weight' does not have rope.dimension_count / 2 = " + std::to_string(dim / 2) +
                     " elements");
    SLIP_TRY(c.rope_freqs, float_values(*freqs, 0, dim / 2));
    // Divisors of angles: files have 1 to the scaling factor, and 1 over a value near zero is no angle any more.
    for (float f : c.rope_freqs)
      if (!(f >= 1e-3f && f <= 1e6f))
        return corrupt("GGUF: 'rope_freqs.weight' holds " + std::to_string(f) + ", expected 0.001 to 1000000");
  }

  std::string type = "none";
  if (arch.has("rope.scaling.type")) {
    SLIP_TRY(type, arch.text("rope.scaling.type"));
  } else if (arch.has("rope.scale_linear")) {  // the key of files before 2023-10
    SLIP_TRY(const double factor, arch.number("rope.scale_linear", 1.0, 1e6));
    c.rope_scaling = factor == 1 ? RopeScaling::kNone : RopeScaling::kLinear;
    c.rope_factor = static_cast<float>(factor);
    return Ok{};
  }
  if (type == "none" || type.empty()) return Ok{};
  if (type != "linear" && type != "yarn")
    return unsupported("GGUF: rope.scaling.type '" + type.substr(0, 40) + "' is not served; served: none, linear, yarn");
  SLIP_TRY(const double factor, arch.number("rope.scaling.factor", 1.0, 1e6));
  c.rope_factor = static_cast<float>(factor);
  c.rope_scaling = type == "linear" ? RopeScaling::kLinear : RopeScaling::kYarn;
  if (c.rope_scaling == RopeScaling::kLinear) return Ok{};

  SLIP_TRY(const int64_t original, arch.integer_or("rope.scaling.original_context_length", c.context_length, 1, kMaxContext));
  SLIP_TRY(const double fast, arch.number_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6));
  SLIP_TRY(const double slow, arch.number_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6));
  SLIP_TRY(const double attention, arch.number_or("rope.scaling.attn_factor", 1, 1e-3, 1e3));
  if (!(fast > slow)) return corrupt("GGUF: rope.scaling.yarn_beta_fast is not above yarn_beta_slow");
  c.rope_original_context = static_cast<int32_t>(original);
  c.rope_beta_fast = static_cast<float>(fast);
  c.rope_beta_slow = static_cast<float>(slow);
  c.rope_attention_factor = static_cast<float>(attention * yarn_mscale(factor, 1));
  return Ok{};
}

Result<ModelConfig> read_gguf_config(const Checkpoint& checkpoint) {
  ModelConfig c;
  const MetaFields general(checkpoint, "", &c.defaults);
  SLIP_TRY(const std::string name, general.text("general.architecture"));
  const Architecture* a = find_architecture_by_gguf_name(name);
  if (a == nullptr) return architecture_refusal(name);
  c.architecture = a->name;
  if (general.has("general.name")) {
    SLIP_TRY(c.name, general.text("general.name"));
  }

  const MetaFields arch(checkpoint, name + ".", &c.defaults);
  if (arch.has("expert_count")) {
    SLIP_TRY(const int64_t experts, arch.integer("expert_count", 0, 1 << 20));
    if (experts > 0)
      return unsupported("GGUF: '" + name + "' with " + std::to_string(experts) +
                             " experts (mixture of experts) is not served yet; use a dense model",
                         "architecture");
  }
  SLIP_TRY(const int64_t layers, arch.integer("block_count", 1, kMaxLayers));
  SLIP_TRY(const int64_t hidden, arch.integer("embedding_length", 1, kMaxHidden));
  SLIP_TRY(const int64_t ffn, arch.integer("feed_forward_length", 1, kMaxFfn));
  SLIP_TRY(const int64_t heads, arch.integer("attention.head_count", 1, kMaxHeads));
  SLIP_TRY(const int64_t kv_heads, arch.integer_or("attention.head_count_kv", heads, 1, kMaxHeads));
  SLIP_TRY(const int64_t context, arch.integer("context_length", 1, kMaxContext));
  SLIP_TRY(const double eps, arch.number("attention.layer_norm_rms_epsilon", 0, 0.1));
  SLIP_TRY(const int64_t head_dim, arch.integer_or("attention.key_length", hidden / heads, 1, kMaxHeadDim));
  SLIP_RETURN_IF_ERROR(check_gguf_value_length(arch, head_dim));
  c.layers = static_cast<int32_t>(layers);
  c.hidden = static_cast<int32_t>(hidden);
  c.ffn = static_cast<int32_t>(ffn);
  c.heads = static_cast<int32_t>(heads);
  c.kv_heads = static_cast<int32_t>(kv_heads);
  c.head_dim = static_cast<int32_t>(head_dim);
  c.context_length = static_cast<int32_t>(context);
  c.norm_eps = static_cast<float>(eps);

  // The logits' width is the embedding's; the tokenizer may list fewer.
  const TensorEntry* embedding = checkpoint.find("token_embd.weight");
  if (embedding == nullptr) return corrupt("GGUF: tensor 'token_embd.weight' is missing");
  if (embedding->shape.size() != 2 || embedding->shape[0] < 1 || embedding->shape[0] > kMaxVocab)
    return corrupt("GGUF: tensor 'token_embd.weight' is not a matrix of 1 to " + std::to_string(kMaxVocab) + " rows");
  c.vocab = static_cast<int32_t>(embedding->shape[0]);
  c.tied_embedding = checkpoint.find("output.weight") == nullptr;
  c.qkv_bias = a->qkv_bias || checkpoint.find("blk.0.attn_q.bias") != nullptr;
  c.o_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  c.mlp_bias = checkpoint.find("blk.0.ffn_up.bias") != nullptr;
  c.qk_norm = a->qk_norm;
  c.rope_style = a->gguf_rope_style;
  if (arch.has("attention.sliding_window")) {
    SLIP_TRY(const int64_t window, arch.integer("attention.sliding_window", 0, kMaxContext));
    c.sliding_window = static_cast<int32_t>(window);
  }
  SLIP_RETURN_IF_ERROR(read_gguf_rope(checkpoint, arch, c));

  const MetaFields tokens(checkpoint, "tokenizer.ggml.", &c.defaults);
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (!tokens.has(key)) continue;
    SLIP_TRY(const int64_t id, tokens.integer(key, 0, INT32_MAX));
    c.eos_ids.push_back(static_cast<int32_t>(id));
  }
  if (tokens.has("bos_token_id")) {
    SLIP_TRY(const int64_t id, tokens.integer("bos_token_id", 0, INT32_MAX));
    c.bos_id = static_cast<int32_t>(id);
  }
  return c;
}

}  // namespace slipstream
