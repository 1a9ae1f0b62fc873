// Llama (SmolLM2, Llama 2 and 3) and Mistral: the plain dense decoder. GGUF files of both call themselves "llama"
// and store q and k rows permuted for interleaved RoPE pairs, so the style differs and the rows stay as they are.
#include "engine/model/architecture.h"
#include "engine/model/dense_decoder.h"

namespace slipstream {
namespace {

Status load_layer(WeightLoader& loader, int32_t layer, DecoderLayer& into) {
  SLIP_RETURN_IF_ERROR(load_matrices(loader, layer, into));
  return load_biases(loader, layer, into);
}

Result<std::unique_ptr<Model>> load(WeightLoader& loader) { return load_dense_decoder(loader, load_layer); }

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .hf_class = "LlamaForCausalLM",
    .gguf_name = "llama",
    .gguf_rope_style = RopeStyle::kInterleaved,
    .attention_bias_key = true,
    .mlp_bias_key = true,
    .default_kv_heads = -1,
    .default_context = 2048,
    .load = load,
};

// The same layers; every layer may have a sliding window, and there are no biases.
const Architecture kMistral = {
    .name = "mistral",
    .hf_class = "MistralForCausalLM",
    .gguf_name = "",
    .window = WindowRule::kAllLayers,
    .default_kv_heads = 8,
    .default_context = 131072,
    .default_window = 4096,
    .load = load,
};

}  // namespace slipstream
