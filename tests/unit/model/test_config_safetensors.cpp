#include <algorithm>

#include "engine/model/cache_scales.h"
#include "tests/unit/model/config_fixture.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::test;
using nlohmann::json;

namespace {

void check_refused(const json& config, ErrorCode code, const std::string& part) {
  const auto result = read(config);
  INFO(part);
  REQUIRE_FALSE(result.ok());
  INFO(result.error().message);
  CHECK(result.error().code == code);
  CHECK(result.error().message.find(part) != std::string::npos);
  CHECK(result.error().message.find('\n') == std::string::npos);
}

json changed(json config, const char* key, json value) {
  config[key] = std::move(value);
  return config;
}
json without(json config, const char* key) {
  config.erase(key);
  return config;
}
bool took(const ModelConfig& c, const std::string& text) {
  return std::find(c.defaults.begin(), c.defaults.end(), text) != c.defaults.end();
}

}  // namespace

TEST_CASE("a Llama config is read in full, without defaults") {
  const auto c = read(llama_json());
  REQUIRE(c.ok());
  CHECK(c->architecture == "llama");
  CHECK(c->layers == 2);
  CHECK(c->hidden == 64);
  CHECK(c->heads == 4);
  CHECK(c->kv_heads == 2);
  CHECK(c->head_dim == 16);
  CHECK(c->ffn == 128);
  CHECK(c->vocab == 320);
  CHECK(c->context_length == 512);
  CHECK(c->norm_eps == 1e-5f);
  CHECK(c->rope_theta == 500000.0f);
  CHECK(c->rope_dim == 16);
  CHECK(c->rope_style == RopeStyle::kHalfSplit);
  CHECK(c->rope_scaling == RopeScaling::kNone);
  CHECK_FALSE(c->tied_embedding);
  CHECK_FALSE(c->qkv_bias);
  CHECK(c->sliding_window == 0);
  CHECK(c->bos_id == 1);
  CHECK(c->eos_ids == std::vector<int32_t>{2, 3});
  CHECK(c->defaults == std::vector<std::string>{"head_dim = 16"});
  CHECK(c->name == "memory");
}

TEST_CASE("absent keys take the class's defaults, and each is listed") {
  auto c = read(without(without(without(llama_json(), "num_key_value_heads"), "rope_theta"), "rms_norm_eps"));
  REQUIRE(c.ok());
  CHECK(c->kv_heads == 4);
  CHECK(c->rope_theta == 10000.0f);
  CHECK(took(*c, "num_key_value_heads = 4"));
  CHECK(took(*c, "rope_theta = 10000"));
  CHECK(took(*c, "rms_norm_eps = 9.99999997e-07") + took(*c, "rms_norm_eps = 1e-06") == 1);

  json qwen = without(changed(llama_json(), "architectures", {"Qwen3ForCausalLM"}), "head_dim");
  qwen["num_attention_heads"] = 8;
  c = read(qwen);
  REQUIRE(c.ok());
  CHECK(c->head_dim == 128);  // transformers' default, not hidden / heads
  CHECK(c->qk_norm);
  CHECK_FALSE(c->qkv_bias);
  CHECK(took(*c, "head_dim = 128"));
}

TEST_CASE("biases follow the architecture and its keys") {
  auto c = read(changed(changed(llama_json(), "attention_bias", true), "mlp_bias", true));
  REQUIRE(c.ok());
  CHECK((c->qkv_bias && c->o_bias && c->mlp_bias));
  c = read(changed(llama_json(), "architectures", {"Qwen2ForCausalLM"}));
  REQUIRE(c.ok());
  CHECK(c->qkv_bias);
  CHECK_FALSE(c->o_bias);
  // Mistral has no such key: transformers ignores it.
  c = read(changed(changed(llama_json(), "architectures", {"MistralForCausalLM"}), "attention_bias", true));
  REQUIRE(c.ok());
  CHECK_FALSE(c->qkv_bias);
}

TEST_CASE("sliding windows of Mistral and Qwen") {
  const json mistral = changed(llama_json(), "architectures", {"MistralForCausalLM"});
  CHECK(read(mistral)->sliding_window == 4096);  // the class's default when the key is absent
  CHECK(read(changed(mistral, "sliding_window", nullptr))->sliding_window == 0);
  CHECK(read(changed(mistral, "sliding_window", 16))->sliding_window == 16);

  json qwen = changed(changed(llama_json(), "architectures", {"Qwen2ForCausalLM"}), "sliding_window", 24);
  qwen["max_window_layers"] = 1;
  CHECK(read(qwen)->sliding_window == 0);  // use_sliding_window is off
  qwen["use_sliding_window"] = true;
  CHECK(read(qwen)->sliding_window == 24);
  CHECK(read(qwen)->first_window_layer == 1);
  CHECK(read(changed(qwen, "max_window_layers", 2))->sliding_window == 0);
  CHECK(read(changed(qwen, "max_window_layers", 0))->first_window_layer == 0);
  // transformers 5 lists the layers and obeys the list.
  CHECK(read(changed(qwen, "layer_types", {"full_attention", "full_attention"}))->sliding_window == 0);
  CHECK(read(changed(qwen, "layer_types", {"sliding_attention", "sliding_attention"}))->first_window_layer == 0);
  check_refused(changed(qwen, "layer_types", {"sliding_attention", "full_attention"}), ErrorCode::kCorrupt, "layer_types");
  check_refused(changed(qwen, "layer_types", {"full_attention"}), ErrorCode::kCorrupt, "2 entries");
  CHECK(read(changed(llama_json(), "sliding_window", 8))->sliding_window == 0);  // Llama has none
}

TEST_CASE("RoPE scaling in both spellings") {
  json c = llama_json();
  c["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  auto read_config = read(c);
  REQUIRE(read_config.ok());
  CHECK(read_config->rope_scaling == RopeScaling::kLlama3);
  CHECK(read_config->rope_theta == 500000.0f);
  CHECK(read_config->rope_original_context == 8192);
  CHECK(read_config->rope_factor == 8);

  c = without(llama_json(), "rope_theta");
  c["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.5}, {"rope_theta", 5000}};
  read_config = read(c);
  REQUIRE(read_config.ok());
  CHECK(read_config->rope_scaling == RopeScaling::kLinear);
  CHECK(read_config->rope_theta == 5000.0f);
  CHECK(read_config->rope_factor == 2.5f);

  c = llama_json();
  c["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 128}};
  read_config = read(c);
  REQUIRE(read_config.ok());
  CHECK(read_config->rope_scaling == RopeScaling::kYarn);
  CHECK(read_config->rope_attention_factor == Approx(1.138629436));
  CHECK(took(*read_config, "beta_fast = 32"));
  c["rope_scaling"].update({{"factor", 40.0}, {"mscale", 0.707}, {"mscale_all_dim", 1.0}});
  CHECK(read(c)->rope_attention_factor == Approx(0.9210423553));
  c["rope_scaling"]["attention_factor"] = 1.5;
  CHECK(read(c)->rope_attention_factor == 1.5f);
}

TEST_CASE("RoPE settings that are wrong or not served are refused") {
  json c = llama_json();
  c["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  check_refused(c, ErrorCode::kUnsupported, "'dynamic'");
  c["rope_scaling"] = {{"factor", 2.0}};
  check_refused(c, ErrorCode::kCorrupt, "'rope_type' is missing");
  c["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}};
  check_refused(c, ErrorCode::kCorrupt, "'low_freq_factor' is missing");
  c["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 0.0}};
  check_refused(c, ErrorCode::kCorrupt, "'factor' is 0.0");
  c["rope_scaling"] = "linear";
  check_refused(c, ErrorCode::kCorrupt, "an object");
  c = llama_json();
  c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  check_refused(c, ErrorCode::kCorrupt, "different values");
  c = llama_json();
  c["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}}}};
  check_refused(c, ErrorCode::kUnsupported, "per-layer-type");
  check_refused(changed(llama_json(), "partial_rotary_factor", 0.5), ErrorCode::kUnsupported, "partial_rotary_factor");
}

TEST_CASE("what is not served is refused by name") {
  check_refused(changed(llama_json(), "architectures", {"Qwen3MoeForCausalLM"}), ErrorCode::kUnsupported, "Qwen3MoeForCausalLM");
  check_refused(changed(llama_json(), "hidden_act", "gelu"), ErrorCode::kUnsupported, "gelu");
  for (const char* method : {"awq", "gptq", "modelopt", "bitsandbytes", "nvfp4"}) {
    check_refused(changed(llama_json(), "quantization_config", {{"quant_method", method}}), ErrorCode::kUnsupported,
                  std::string("'") + method + "'");
  }
}

TEST_CASE("FP8 schemes of both spellings are read, and what differs is refused by name") {
  using Scales = Fp8Scheme::Scales;
  const auto fp8 = [](json q) {
    q["quant_method"] = "fp8";
    return changed(llama_json(), "quantization_config", std::move(q));
  };
  CHECK(read(llama_json())->fp8.scales == Scales::kNone);
  const auto block = read(fp8({{"activation_scheme", "dynamic"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 64}},
                               {"modules_to_not_convert", {"lm_head"}}}));
  REQUIRE(block.ok());
  CHECK(block->fp8.scales == Scales::kBlock);
  CHECK((block->fp8.block_rows == 128 && block->fp8.block_cols == 64));
  CHECK(block->fp8.suffix == "weight_scale_inv");
  CHECK(block->fp8.scale_shape(129, 64) == std::vector<int64_t>{2, 1});
  const auto tensor = read(fp8({{"activation_scheme", "static"}, {"weight_block_size", nullptr}}));
  REQUIRE(tensor.ok());
  CHECK(tensor->fp8.scales == Scales::kTensor);
  CHECK(tensor->fp8.suffix == "weight_scale");
  check_refused(fp8({{"fmt", "e5m2"}}), ErrorCode::kUnsupported, "'fmt' \"e5m2\"");
  check_refused(fp8({{"activation_scheme", "none"}}), ErrorCode::kCorrupt, "'activation_scheme' is \"none\"");
  for (const json& sides : {json{128}, json{0, 128}, json{128, 65537}, json{"a", "b"}, json(128)})
    check_refused(fp8({{"weight_block_size", sides}}), ErrorCode::kCorrupt, "expected two integers from 1 to 65536");
  check_refused(fp8({{"modules_to_not_convert", "lm_head"}}), ErrorCode::kCorrupt, "'modules_to_not_convert' is not a list");

  const auto packed = [](json weights, json changes = json::object()) {
    json q = {{"quant_method", "compressed-tensors"}, {"format", "float-quantized"}, {"ignore", {"lm_head"}},
              {"kv_cache_scheme", nullptr}, {"sparsity_config", json::object()}, {"transform_config", json::object()},
              {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights},
                                              {"input_activations", {{"num_bits", 8}, {"dynamic", true}}}}}}}};
    for (const auto& [key, value] : changes.items()) q[key] = value;
    return changed(llama_json(), "quantization_config", q);
  };
  const json channel = {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}, {"symmetric", true}, {"dynamic", false}};
  const auto read_channel = read(packed(channel));
  REQUIRE(read_channel.ok());
  CHECK(read_channel->fp8.scales == Scales::kChannel);
  CHECK(read_channel->fp8.suffix == "weight_scale");
  CHECK(read_channel->fp8.scale_shape(40, 64) == std::vector<int64_t>{40, 1});
  json blocks = changed(channel, "strategy", "block");
  blocks["block_structure"] = {128, 128};
  CHECK(read(packed(blocks))->fp8.scales == Scales::kBlock);
  CHECK(read(packed(changed(channel, "strategy", "tensor")))->fp8.scales == Scales::kTensor);
  check_refused(packed(changed(channel, "strategy", "group")), ErrorCode::kUnsupported, "strategy \"group\"");
  check_refused(packed(changed(channel, "num_bits", 4)), ErrorCode::kUnsupported, "num_bits 4");
  check_refused(packed(changed(channel, "type", "int")), ErrorCode::kUnsupported, "type \"int\"");
  check_refused(packed(changed(channel, "symmetric", false)), ErrorCode::kUnsupported, "asymmetric");
  check_refused(packed(changed(channel, "strategy", "block")), ErrorCode::kCorrupt, "'block_structure'");
  check_refused(packed(channel, {{"format", "pack-quantized"}}), ErrorCode::kUnsupported, "format \"pack-quantized\"");
  CHECK_FALSE(read_channel->fp8.cache);
  const json cache = {{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}, {"symmetric", true}, {"dynamic", false}};
  const auto read_cache = read(packed(channel, {{"kv_cache_scheme", cache}}));
  REQUIRE(read_cache.ok());
  CHECK(read_cache->fp8.cache);
  CHECK(cache_dtype("auto", *read_cache) == DType::kF8E4M3);
  CHECK(cache_dtype("bf16", *read_cache) == DType::kBF16);
  CHECK(cache_dtype("auto", *read_channel) == DType::kBF16);
  CHECK(cache_dtype("fp8", *read_channel) == DType::kF8E4M3);
  for (const auto& [key, value] : std::vector<std::pair<const char*, json>>{
           {"num_bits", 4}, {"type", "int"}, {"strategy", "attn_head"}, {"symmetric", false}, {"dynamic", true}})
    check_refused(packed(channel, {{"kv_cache_scheme", changed(cache, key, value)}}), ErrorCode::kUnsupported, "kv_cache_scheme");
  check_refused(packed(channel, {{"kv_cache_scheme", "fp8"}}), ErrorCode::kCorrupt, "kv_cache_scheme");
  check_refused(packed(channel, {{"sparsity_config", {{"format", "sparse-24"}}}}), ErrorCode::kUnsupported, "sparsity_config");
  check_refused(packed(channel, {{"config_groups", json::object()}}), ErrorCode::kCorrupt, "config_groups");
  check_refused(packed(channel, {{"config_groups", {{"a", {{"weights", channel}}}, {"b", {{"weights", blocks}}}}}}),
                ErrorCode::kUnsupported, "different strategies");
  check_refused(changed(llama_json(), "quantization_config", "fp8"), ErrorCode::kCorrupt, "an object");
}

TEST_CASE("values out of range name the key, the value and the bound") {
  check_refused(changed(llama_json(), "num_hidden_layers", 0), ErrorCode::kCorrupt, "'num_hidden_layers' is 0, expected an integer from 1 to 1024");
  check_refused(changed(llama_json(), "hidden_size", "64"), ErrorCode::kCorrupt, "'hidden_size' is \"64\"");
  check_refused(changed(llama_json(), "vocab_size", 18446744073709551615u), ErrorCode::kCorrupt, "vocab_size");
  check_refused(changed(llama_json(), "hidden_size", 64.5), ErrorCode::kCorrupt, "64.5");
  check_refused(changed(llama_json(), "rms_norm_eps", 0), ErrorCode::kCorrupt, "epsilon");
  check_refused(changed(llama_json(), "num_key_value_heads", 3), ErrorCode::kCorrupt, "4 attention heads are not a multiple of 3");
  check_refused(changed(llama_json(), "head_dim", 15), ErrorCode::kCorrupt, "15");
  check_refused(changed(llama_json(), "eos_token_id", 320), ErrorCode::kCorrupt, "320");
  check_refused(changed(llama_json(), "eos_token_id", -1), ErrorCode::kCorrupt, "eos_token_id");
  check_refused(changed(llama_json(), "tie_word_embeddings", "yes"), ErrorCode::kCorrupt, "tie_word_embeddings");
  check_refused(without(llama_json(), "hidden_size"), ErrorCode::kCorrupt, "'hidden_size' is missing");
  check_refused(without(llama_json(), "architectures"), ErrorCode::kCorrupt, "'architectures' is missing");
  MemoryCheckpoint broken(CheckpointKind::kSafetensors);
  CHECK(read_model_config(broken).error().code == ErrorCode::kNotFound);
  broken.set_file("config.json", "{\"a\": ");
  CHECK(read_model_config(broken).error().message.find("not valid JSON") != std::string::npos);
  broken.set_file("config.json", "[]");
  CHECK(read_model_config(broken).error().message.find("not an object") != std::string::npos);
}
