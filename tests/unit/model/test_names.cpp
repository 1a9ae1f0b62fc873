#include "engine/model/architecture.h"
#include "engine/model/cache_scales.h"
#include "engine/model/name_map.h"
#include "tests/catch.h"
#include "tests/model/memory_checkpoint.h"

using namespace slipstream;

TEST_CASE("roles have the published names of both containers") {
  using K = CheckpointKind;
  CHECK(tensor_name(K::kSafetensors, Role::kEmbedding, 0) == "model.embed_tokens.weight");
  CHECK(tensor_name(K::kSafetensors, Role::kOutputNorm, 0) == "model.norm.weight");
  CHECK(tensor_name(K::kSafetensors, Role::kOutput, 0) == "lm_head.weight");
  CHECK(tensor_name(K::kSafetensors, Role::kQ, 3, "bias") == "model.layers.3.self_attn.q_proj.bias");
  CHECK(tensor_name(K::kSafetensors, Role::kKNorm, 10) == "model.layers.10.self_attn.k_norm.weight");
  CHECK(tensor_name(K::kSafetensors, Role::kMlpNorm, 1) == "model.layers.1.post_attention_layernorm.weight");
  CHECK(tensor_name(K::kSafetensors, Role::kDown, 1) == "model.layers.1.mlp.down_proj.weight");
  CHECK(tensor_name(K::kGguf, Role::kEmbedding, 0) == "token_embd.weight");
  CHECK(tensor_name(K::kGguf, Role::kOutput, 0) == "output.weight");
  CHECK(tensor_name(K::kGguf, Role::kO, 12) == "blk.12.attn_output.weight");
  CHECK(tensor_name(K::kGguf, Role::kV, 0, "bias") == "blk.0.attn_v.bias");
  CHECK(tensor_name(K::kGguf, Role::kMlpNorm, 0) == "blk.0.ffn_norm.weight");
}

TEST_CASE("only named tensors may be left over") {
  using K = CheckpointKind;
  CHECK(may_be_left_over(K::kSafetensors, "model.layers.0.self_attn.rotary_emb.inv_freq", false));
  CHECK(may_be_left_over(K::kSafetensors, "lm_head.weight", true));
  CHECK_FALSE(may_be_left_over(K::kSafetensors, "lm_head.weight", false));
  CHECK(may_be_left_over(K::kSafetensors, "model.layers.3.self_attn.k_scale", false));
  CHECK(may_be_left_over(K::kSafetensors, "model.layers.3.self_attn.v_proj.v_scale", false));
  CHECK(may_be_left_over(K::kSafetensors, "model.layers.3.self_attn.attn.k_scale", false));
  CHECK_FALSE(may_be_left_over(K::kSafetensors, "model.layers.3.self_attn.k_proj.v_scale", false));
  CHECK_FALSE(may_be_left_over(K::kSafetensors, "model.layers.3.self_attn.q_scale", false));
  CHECK_FALSE(may_be_left_over(K::kSafetensors, "rope_freqs.weight", false));
  CHECK(may_be_left_over(K::kGguf, "rope_freqs.weight", false));
  CHECK_FALSE(may_be_left_over(K::kGguf, "output.weight", true));
  CHECK_FALSE(may_be_left_over(K::kGguf, "blk.0.attn_q.lora_a", false));
}

TEST_CASE("scales of an 8-bit cache are read from where tools put them, all or none") {
  using test::MemoryCheckpoint;
  const std::string layer = "model.layers.", attention = ".self_attn.";
  MemoryCheckpoint file(CheckpointKind::kSafetensors);
  REQUIRE(cache_scales(file, 2)->empty());
  file.add(layer + "0" + attention + "k_scale", {1}, {0.5f});
  file.add(layer + "0" + attention + "v_proj.v_scale", {1}, {0.25f}, DType::kBF16);
  file.add(layer + "1" + attention + "attn.k_scale", {1}, {2.0f}, DType::kF16);
  const auto refusal = [&] {
    const auto scales = cache_scales(file, 2);
    return scales.ok() ? std::string("none") : scales.error().message;
  };
  CHECK(refusal() == "cache scale 'model.layers.1.self_attn.v_scale' is missing from memory, which has others; "
                     "use --kv-cache-dtype bf16");
  file.add(layer + "1" + attention + "v_scale", {1}, {8.0f});
  const auto scales = cache_scales(file, 2);
  REQUIRE(scales.ok());
  REQUIRE(scales->size() == 2);
  CHECK((*scales)[0].k == 0.5f);
  CHECK((*scales)[0].v == 0.25f);
  CHECK((*scales)[1].k == 2.0f);
  CHECK((*scales)[1].v == 8.0f);
  file.add(layer + "1" + attention + "v_scale", {1}, {0.0f});
  CHECK(refusal().find("'model.layers.1.self_attn.v_scale' is 0.000000, not a positive number") != std::string::npos);
  file.add(layer + "1" + attention + "v_scale", {2}, {1.0f, 1.0f});
  CHECK(refusal().find("is 2 elements of F32, expected one") != std::string::npos);
}

TEST_CASE("served architectures are found by class and by GGUF name") {
  CHECK(find_architecture_by_hf_class("LlamaForCausalLM") == &kLlama);
  CHECK(find_architecture_by_hf_class("MistralForCausalLM") == &kMistral);
  CHECK(find_architecture_by_gguf_name("llama") == &kLlama);
  CHECK(find_architecture_by_gguf_name("qwen3") == &kQwen3);
  CHECK(find_architecture_by_gguf_name("") == nullptr);
  CHECK(find_architecture_by_hf_class("llama") == nullptr);
}

TEST_CASE("other architectures are refused by name, with what is served") {
  for (const auto& [name, reason] : std::vector<std::pair<const char*, const char*>>{
           {"Qwen3MoeForCausalLM", "mixture of experts"},
           {"qwen35", "Gated DeltaNet"},
           {"Qwen3_5ForConditionalGeneration", "Gated DeltaNet"},
           {"GlmMoeDsaForCausalLM", "sparse indexer"},
           {"glm-dsa", "sparse indexer"},
           {"deepseek2", "latent attention"},
           {"Gemma3ForCausalLM", "Gemma"},
           {"GptOssForCausalLM", "attention sinks"},
           {"NoSuchModel", "is not served"}}) {
    const Error error = architecture_refusal(name);
    INFO(error.message);
    CHECK(error.code == ErrorCode::kUnsupported);
    CHECK(error.message.find(name) != std::string::npos);
    CHECK(error.message.find(reason) != std::string::npos);
    CHECK(error.message.find("Qwen3ForCausalLM") != std::string::npos);
  }
}
