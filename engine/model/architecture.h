// What a served architecture is: its names in both containers, its facts that no config key states, and the function
// that loads it. Each architecture's own file defines one; registry.cpp lists them. Knows no tensor data.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"

namespace slipstream {

class WeightLoader;

enum class WindowRule : uint8_t {
  kNone,        // no sliding window key
  kAllLayers,   // sliding_window holds for every layer (Mistral)
  kUpperLayers, // use_sliding_window, from layer max_window_layers on (Qwen)
};

struct Architecture {
  std::string_view name;       // ModelConfig::architecture
  std::string_view hf_class;   // entry of config.json "architectures"
  std::string_view gguf_name;  // general.architecture
  RopeStyle gguf_rope_style = RopeStyle::kHalfSplit;  // safetensors are always kHalfSplit
  bool qkv_bias = false;             // q, k and v always have biases (Qwen2)
  bool attention_bias_key = false;   // config.json may switch q, k, v and o biases on
  bool mlp_bias_key = false;         // config.json may switch MLP biases on
  bool qk_norm = false;              // RMSNorm of each q and k head (Qwen3)
  WindowRule window = WindowRule::kNone;
  // transformers' class defaults for keys that a config.json may leave out; 0: the key is required.
  int32_t default_kv_heads = 0;      // -1: as many as heads
  int32_t default_head_dim = 0;      // 0: hidden / heads
  int32_t default_context = 0;
  int32_t default_window = 0;
  Result<std::unique_ptr<Model>> (*load)(WeightLoader& loader) = nullptr;
};

extern const Architecture kLlama, kMistral, kQwen2, kQwen3;

/// Null when not served.
const Architecture* find_architecture_by_hf_class(std::string_view hf_class);
const Architecture* find_architecture_by_gguf_name(std::string_view gguf_name);
const Architecture* find_architecture(std::string_view name);

/// kUnsupported: names the architecture, what is known about it, and what is served.
Error architecture_refusal(std::string_view name);

}  // namespace slipstream
