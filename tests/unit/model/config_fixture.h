// Checkpoints that hold nothing but a config.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/model/model_config.h"
#include "tests/model/memory_checkpoint.h"

namespace slipstream::test {

/// A small Llama config.json; tests change keys of it.
inline nlohmann::json llama_json() {
  return nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": false,
    "attention_bias": false, "mlp_bias": false, "bos_token_id": 1, "eos_token_id": [2, 3]})");
}

inline Result<ModelConfig> read(const nlohmann::json& config, const std::string& generation = {}) {
  MemoryCheckpoint checkpoint(CheckpointKind::kSafetensors);
  checkpoint.set_file("config.json", config.dump());
  if (!generation.empty()) checkpoint.set_file("generation_config.json", generation);
  return read_model_config(checkpoint);
}

}  // namespace slipstream::test
