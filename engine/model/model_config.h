// The shape of a model, read from config.json or GGUF metadata and validated. Knows names of architectures and
// keys; no tensor data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/fp8_scheme.h"
#include "engine/weights/checkpoint.h"
#include "kernels/ops.h"

namespace slipstream {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

/// A dense Llama-family decoder. Later families add their own fields; every field is validated on reading.
/// Stop ids that a model may bring; a request's own come on top (devices keep a fixed table for both).
inline constexpr size_t kMaxModelStopIds = 64;

struct ModelConfig {
  std::string architecture;          // "llama", "qwen2", "qwen3", "mistral"
  std::string name;                  // general.name or the folder's name
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t ffn = 0;
  int32_t vocab = 0;                 // logits width: rows of the embedding
  int32_t context_length = 0;        // max_position_embeddings
  float norm_eps = 0;
  bool tied_embedding = false;
  bool qkv_bias = false;
  bool o_bias = false;               // bias of the attention output
  bool mlp_bias = false;             // biases of gate, up and down
  bool qk_norm = false;
  int32_t sliding_window = 0;        // 0: full attention
  int32_t first_window_layer = 0;    // layers below it keep full attention (Qwen2 max_window_layers)
  RopeStyle rope_style = RopeStyle::kHalfSplit;
  int32_t rope_dim = 0;              // rotated leading elements of each head
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 1, rope_low_freq_factor = 1, rope_high_freq_factor = 4;
  int32_t rope_original_context = 0;
  float rope_beta_fast = 32, rope_beta_slow = 1;  // yarn
  bool rope_truncate = true;                      // yarn: correction range rounded to whole pairs
  float rope_attention_factor = 1;
  std::vector<float> rope_freqs;     // GGUF rope_freqs.weight divisors, or empty
  std::vector<int32_t> eos_ids;      // stop ids: generation_config, config, GGUF eos/eot/eom
  int32_t bos_id = -1;
  DType weights_dtype = DType::kBF16;  // config.json's torch_dtype; what dummy weights are stored in
  Fp8Scheme fp8;                       // scales of FP8 matrices, where the checkpoint has any
  std::vector<std::string> defaults;  // keys that were absent, as "rope_theta = 10000": also logged
};

/// Sampling defaults of generation_config.json; a negative value means "not given".
struct GenerationDefaults {
  float temperature = -1, top_p = -1, min_p = -1, repetition_penalty = -1;
  int32_t top_k = -1;
  std::string source;  // "generation_config.json" or "built in"
};

Result<ModelConfig> read_model_config(const Checkpoint& checkpoint);
Result<GenerationDefaults> read_generation_defaults(const Checkpoint& checkpoint);

}  // namespace slipstream
