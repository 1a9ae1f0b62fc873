// The names: Hugging Face's module paths and GGUF's short names.
#include "engine/model/name_map.h"

#include <array>

#include "engine/model/cache_scales.h"

namespace slipstream {
namespace {

struct RoleNames {
  bool per_layer;
  std::string_view hf;
  std::string_view gguf;
};

// In the order of Role.
constexpr std::array<RoleNames, 16> kNames = {{
    {false, "model.embed_tokens", "token_embd"},
    {false, "model.norm", "output_norm"},
    {false, "lm_head", "output"},
    {true, "input_layernorm", "attn_norm"},
    {true, "self_attn.q_proj", "attn_q"},
    {true, "self_attn.k_proj", "attn_k"},
    {true, "self_attn.v_proj", "attn_v"},
    {true, "self_attn.o_proj", "attn_output"},
    {true, "self_attn.q_norm", "attn_q_norm"},
    {true, "self_attn.k_norm", "attn_k_norm"},
    {true, "post_attention_layernorm", "ffn_norm"},
    {true, "mlp.gate_proj", "ffn_gate"},
    {true, "mlp.up_proj", "ffn_up"},
    {true, "mlp.down_proj", "ffn_down"},
    {false, "model.fc", "fc"},
    {false, "model.hidden_norm", "enc.output_norm"},
}};

}  // namespace

std::string tensor_name(CheckpointKind kind, Role role, int32_t layer, std::string_view suffix) {
  const RoleNames& names = kNames[static_cast<size_t>(role)];
  const bool hf = kind == CheckpointKind::kSafetensors;
  std::string out;
  if (names.per_layer) out = (hf ? "model.layers." : "blk.") + std::to_string(layer) + ".";
  out += hf ? names.hf : names.gguf;
  out += '.';
  return out += suffix;
}

bool may_be_left_over(CheckpointKind kind, std::string_view name, bool tied_embedding) {
  if (kind == CheckpointKind::kGguf) return name == "rope_freqs.weight";
  if (name.ends_with(".rotary_emb.inv_freq") || name == "rotary_emb.inv_freq" || is_cache_scale(name)) return true;
  return tied_embedding && name == "lm_head.weight";
}

const TensorNames kDecoderNames = {tensor_name, may_be_left_over};

}  // namespace slipstream
