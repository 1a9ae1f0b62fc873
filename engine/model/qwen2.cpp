// Qwen2 and Qwen2.5: the dense decoder with biases on q, k and v, which no config key states, and optionally a
// sliding window in the upper layers.
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

const Architecture kQwen2 = {
    .name = "qwen2",
    .hf_class = "Qwen2ForCausalLM",
    .gguf_name = "qwen2",
    .gguf_rope_style = RopeStyle::kHalfSplit,
    .qkv_bias = true,
    .window = WindowRule::kUpperLayers,
    .default_kv_heads = 32,
    .default_context = 32768,
    .default_window = 4096,
    .load = load,
};

}  // namespace slipstream
