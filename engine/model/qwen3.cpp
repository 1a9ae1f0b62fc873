// Qwen3: the dense decoder with an RMSNorm over each head of q and k before RoPE, a head size of its own, and no
// biases unless the config says so.
#include "engine/model/architecture.h"
#include "engine/model/dense_decoder.h"

namespace slipstream {
namespace {

Status load_layer(WeightLoader& loader, int32_t layer, DecoderLayer& into) {
  SLIP_RETURN_IF_ERROR(load_matrices(loader, layer, into));
  SLIP_TRY(into.q_norm, loader.norm(layer, Role::kQNorm, loader.config().head_dim));
  SLIP_TRY(into.k_norm, loader.norm(layer, Role::kKNorm, loader.config().head_dim));
  return load_biases(loader, layer, into);
}

Result<std::unique_ptr<Model>> load(WeightLoader& loader) { return load_dense_decoder(loader, load_layer); }

}  // namespace

const Architecture kQwen3 = {
    .name = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .gguf_name = "qwen3",
    .gguf_rope_style = RopeStyle::kHalfSplit,
    .attention_bias_key = true,
    .qk_norm = true,
    .window = WindowRule::kUpperLayers,
    .default_kv_heads = 32,
    .default_head_dim = 128,
    .default_context = 32768,
    .default_window = 4096,
    .load = load,
};

}  // namespace slipstream
