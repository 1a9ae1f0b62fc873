#include <algorithm>

#include "engine/model/drafter_config.h"
#include "tests/catch.h"
#include "tests/unit/model/config_fixture.h"

using namespace slipstream;
using namespace slipstream::test;
using nlohmann::json;

namespace {

/// As the drafters of the Qwen3 generation are published.
json drafter_json() {
  return json::parse(R"({
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 16,
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "dflash_config": {"mask_token_id": 251, "target_layer_ids": [1, 9, 17, 25, 33]}, "num_target_layers": 36,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-5, "rope_theta": 1000000, "rope_scaling": null,
    "sliding_window": null, "use_sliding_window": false, "max_window_layers": 3, "max_position_embeddings": 40960,
    "vocab_size": 256, "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": false,
    "layer_types": ["full_attention", "full_attention", "full_attention"], "torch_dtype": "bfloat16"})");
}

Result<DrafterConfig> read_drafter(const json& config) {
  MemoryCheckpoint checkpoint(CheckpointKind::kSafetensors);
  checkpoint.set_file("config.json", config.dump());
  return read_drafter_config(checkpoint);
}

/// `patch` as in RFC 7386: null removes a key.
json patched(const char* patch) {
  json config = drafter_json();
  config.merge_patch(json::parse(patch));
  return config;
}

DrafterConfig good(const char* patch) {
  const auto c = read_drafter(patched(patch));
  INFO(patch << ": " << (c.ok() ? std::string() : c.error().message));
  REQUIRE(c.ok());
  return *c;
}

void check_refused(const char* patch, ErrorCode code, const std::string& part) {
  const auto c = read_drafter(patched(patch));
  INFO(patch);
  REQUIRE_FALSE(c.ok());
  INFO(c.error().message);
  CHECK(c.error().code == code);
  CHECK(c.error().message.find(part) != std::string::npos);
  CHECK(c.error().message.find('\n') == std::string::npos);
}

/// "24c 0 24": window of each layer, c for causal.
std::string shown(const DrafterConfig& c) {
  std::string out;
  for (const DrafterAttention& a : c.attention) {
    if (!out.empty()) out += ' ';
    out += std::to_string(a.window) + (a.causal ? "c" : "");
  }
  return out;
}

ModelConfig target() {
  ModelConfig t;
  t.name = "big";
  t.layers = 36;
  t.hidden = 64;
  t.vocab = 256;
  return t;
}

}  // namespace

TEST_CASE("a published drafter config is read in full, without defaults") {
  const DrafterConfig c = good("{}");
  CHECK(c.stack.architecture == "dflash");
  CHECK(c.stack.layers == 3);
  CHECK(c.stack.hidden == 64);
  CHECK(c.stack.heads == 8);
  CHECK(c.stack.kv_heads == 2);
  CHECK(c.stack.head_dim == 32);
  CHECK(c.stack.rope_dim == 32);
  CHECK(c.stack.ffn == 96);
  CHECK(c.stack.vocab == 256);
  CHECK(c.stack.context_length == 40960);
  CHECK(c.stack.norm_eps == 1e-5f);
  CHECK(c.stack.rope_theta == 1e6f);
  CHECK(c.stack.rope_style == RopeStyle::kHalfSplit);
  CHECK(c.stack.rope_scaling == RopeScaling::kNone);
  CHECK(c.stack.qk_norm);
  CHECK(c.stack.weights_dtype == DType::kBF16);
  CHECK(c.taps == std::vector<int32_t>{1, 9, 17, 25, 33});
  CHECK(c.target_hidden == 64);
  CHECK(c.target_layers == 36);
  CHECK(c.block_rows == 16);
  CHECK(c.mask_token == 251);
  CHECK_FALSE(c.anchor_first);
  CHECK_FALSE(c.embedding_scale);
  CHECK_FALSE(c.logit_softcap);
  CHECK(c.logit_multiplier == 1);
  CHECK(shown(c) == "0 0 0");
  CHECK(c.stack.defaults.empty());
  CHECK(c.drafts(16) == 15);
}

TEST_CASE("keys of a drafter may stand at the top, in dflash_config, or in both alike") {
  CHECK(good(R"({"block_size": null, "dflash_config": {"block_size": 8}})").block_rows == 8);
  CHECK(good(R"({"dflash_config": {"block_size": 16}})").block_rows == 16);
  const DrafterConfig flat = good(R"({"dflash_config": null, "target_layer_ids": [2, 0], "mask_token_id": 7})");
  CHECK(flat.taps == std::vector<int32_t>{2, 0});
  CHECK(flat.mask_token == 7);
  const DrafterConfig scaled = good(R"({"input_embedding_scale": 2.5, "dflash_config": {"output_multiplier": 0.25,
                                       "final_logit_softcapping": 20}})");
  CHECK(scaled.embedding_scale == 2.5f);
  CHECK(scaled.logit_multiplier == 0.25f);
  CHECK(scaled.logit_softcap == 20.0f);

  check_refused(R"({"dflash_config": {"block_size": 8}})", ErrorCode::kCorrupt,
                "'block_size' is 16 at the top and 8 in 'dflash_config'");
  check_refused(R"({"mask_token_id": 250})", ErrorCode::kCorrupt, "'mask_token_id' is 250 at the top and 251 in 'dflash_config'");
  check_refused(R"({"target_layer_ids": [1, 9, 17, 25, 34]})", ErrorCode::kCorrupt,
                "'target_layer_ids' is [1,9,17,25,34] at the top and [1,9,17,25,33] in 'dflash_config'");
  check_refused(R"({"output_multiplier": 1, "dflash_config": {"output_multiplier": 2}})", ErrorCode::kCorrupt, "'output_multiplier'");
  check_refused(R"({"dflash_config": [1]})", ErrorCode::kCorrupt, "'dflash_config' is [1], expected an object");
}

TEST_CASE("what only a config can say is never guessed") {
  check_refused(R"({"block_size": null})", ErrorCode::kCorrupt, "'block_size' is missing");
  check_refused(R"({"dflash_config": {"mask_token_id": null}})", ErrorCode::kCorrupt, "'mask_token_id' is missing");
  check_refused(R"({"dflash_config": {"target_layer_ids": null}})", ErrorCode::kCorrupt, "'target_layer_ids' is missing");
  check_refused(R"({"rope_theta": null})", ErrorCode::kCorrupt, "'rope_theta' is missing");
  check_refused(R"({"rms_norm_eps": null})", ErrorCode::kCorrupt, "'rms_norm_eps' is missing");
  check_refused(R"({"head_dim": null})", ErrorCode::kCorrupt, "'head_dim' is missing");
  check_refused(R"({"architectures": null})", ErrorCode::kCorrupt, "'architectures' is missing");
  check_refused(R"({"dflash_config": {"target_layer_ids": null}, "aux_hidden_state_layer_ids": [2, 10]})", ErrorCode::kUnsupported,
                "each of them less 1");
  const DrafterConfig c = good(R"({"max_position_embeddings": null, "num_key_value_heads": null,
                                  "vocab_size": null, "num_target_layers": null})");
  CHECK(c.stack.kv_heads == 8);
  CHECK(c.stack.vocab == 0);
  CHECK(c.target_layers == 0);
  CHECK(c.stack.defaults == std::vector<std::string>{"num_key_value_heads = 8", "max_position_embeddings = 32768"});
}

TEST_CASE("windows and causality of drafter layers") {
  const std::string types = R"("layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 24)";
  const auto with = [&](const std::string& more) { return shown(good(("{" + types + more + "}").c_str())); };
  // A sliding layer is causal unless a key says otherwise.
  CHECK(with(R"(, "use_sliding_window": true)") == "24c 24c 0");
  CHECK(with(R"(, "use_sliding_window": null)") == "24c 24c 0");
  CHECK(with(R"(, "use_sliding_window": true, "is_causal": false)") == "24 24 0");
  CHECK(with(R"(, "use_sliding_window": true, "is_causal": true)") == "24c 24c 0c");
  CHECK(with(R"(, "use_sliding_window": true, "dflash_config": {"causal": false})") == "24 24 0");
  CHECK(shown(good(R"({"is_causal": true})")) == "0c 0c 0c");
  // The class's rule where no list is given: layers from max_window_layers on.
  CHECK(shown(good(R"({"layer_types": null, "use_sliding_window": true, "sliding_window": 9, "max_window_layers": 1})")) == "0 9c 9c");
  CHECK(shown(good(R"({"layer_types": null, "use_sliding_window": true, "sliding_window": 9, "max_window_layers": 28})")) == "0 0 0");
  CHECK(shown(good(R"({"layer_types": null, "sliding_window": 9})")) == "0 0 0");
  // MiMo: every layer slides and none is causal.
  CHECK(shown(good(R"({"layer_types": null, "dflash_config": {"use_swa": true, "swa_window_size": 12}})")) == "12 12 12");

  check_refused(("{" + types + "}").c_str(), ErrorCode::kCorrupt, "'layer_types' has sliding layers, but 'use_sliding_window' is false");
  check_refused(("{" + types + R"(, "use_sliding_window": true, "is_causal": true, "dflash_config": {"causal": false}})").c_str(),
                ErrorCode::kCorrupt, "'causal' in 'dflash_config' contradicts another key of causality");
  check_refused(("{" + types + R"(, "use_sliding_window": true, "is_causal": true, "causal": false})").c_str(), ErrorCode::kCorrupt,
                "'causal' contradicts another key of causality");
  CHECK(shown(good(("{" + types + R"(, "use_sliding_window": true, "causal": false})").c_str())) == "24 24 0");
  for (const char* top : {R"("layer_types": ["sliding_attention"])", R"("use_sliding_window": true)", R"("max_window_layers": 1)"})
    check_refused((R"({"dflash_config": {)" + std::string(top) + "}}").c_str(), ErrorCode::kCorrupt, "in 'dflash_config', where nobody reads it");
  check_refused(R"({"layer_types": ["sliding_attention", "full_attention", "full_attention"], "use_sliding_window": true})",
                ErrorCode::kCorrupt, "'sliding_window' is missing");
  check_refused(R"({"layer_types": ["full_attention"]})", ErrorCode::kCorrupt, "expected a list of 3 entries");
  check_refused(R"({"layer_types": ["full_attention", "chunked_attention", "full_attention"]})", ErrorCode::kCorrupt, "'layer_types'");
  check_refused(R"({"dflash_config": {"use_swa": true, "swa_window_size": 12}})", ErrorCode::kCorrupt,
                "'use_swa' makes every layer slide");
}

TEST_CASE("both slot conventions of drafters") {
  CHECK(good(R"({"sample_from_anchor": true})").anchor_first);
  CHECK(good(R"({"dflash_config": {"sample_from_anchor": true}})").anchor_first);
  CHECK(good(R"({"num_anchors": 512})").anchor_first);
  CHECK_FALSE(good(R"({"num_anchors": 512, "sample_from_anchor": false})").anchor_first);
  const DrafterConfig c = good(R"({"sample_from_anchor": true})");
  CHECK(c.drafts(16) == 16);
  check_refused(R"({"sample_from_anchor": 1})", ErrorCode::kCorrupt, "'sample_from_anchor' is 1, expected true or false");
}

TEST_CASE("RoPE of a drafter in both spellings of transformers") {
  const DrafterConfig five = good(R"({"rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 5000}})");
  CHECK(five.stack.rope_theta == 5000.0f);
  const DrafterConfig yarn = good(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}})");
  CHECK(yarn.stack.rope_scaling == RopeScaling::kYarn);
  CHECK(yarn.stack.rope_factor == 4);
  CHECK(yarn.stack.rope_original_context == 4096);
  check_refused(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5000}})", ErrorCode::kCorrupt, "different values");
}

TEST_CASE("values of a drafter config out of range") {
  check_refused(R"({"block_size": 1})", ErrorCode::kCorrupt, "'block_size' is 1, expected an integer from 2 to 32");
  check_refused(R"({"block_size": 33})", ErrorCode::kCorrupt, "from 2 to 32");
  check_refused(R"({"block_size": "16"})", ErrorCode::kCorrupt, "'block_size' is \"16\"");
  check_refused(R"({"dflash_config": {"mask_token_id": -1}})", ErrorCode::kCorrupt, "'mask_token_id' is -1");
  check_refused(R"({"dflash_config": {"mask_token_id": 256}})", ErrorCode::kCorrupt, "mask token id 256 is outside the vocabulary of 256");
  for (const char* list : {"[]", "5", "[1.5]", "[\"1\"]", "[-2]", "[1024]", "[99999999999999999999]"})
    check_refused((R"({"dflash_config": {"target_layer_ids": )" + std::string(list) + "}}").c_str(), ErrorCode::kCorrupt,
                  "expected a list of 1 to 64 layer indices from 0");
  check_refused(R"({"dflash_config": {"target_layer_ids": [-1, 3]}})", ErrorCode::kUnsupported, "the output of the embedding");
  check_refused(R"({"dflash_config": {"target_layer_ids": [3, 5, 3]}})", ErrorCode::kCorrupt, "target layer 3 is tapped twice");
  check_refused(R"({"dflash_config": {"target_layer_ids": [1, 36]}})", ErrorCode::kCorrupt,
                "tapped layer 36 is outside a target of 36 layers");
  check_refused(R"({"num_key_value_heads": 3})", ErrorCode::kCorrupt, "8 attention heads are not a multiple of 3");
  check_refused(R"({"head_dim": 33})", ErrorCode::kCorrupt, "head size 33");
  check_refused(R"({"rms_norm_eps": 0})", ErrorCode::kCorrupt, "the RMS norm epsilon is 0");
  check_refused(R"({"max_position_embeddings": 8})", ErrorCode::kCorrupt, "block size 16 is over the context length of 8");
  check_refused(R"({"dflash_config": {"output_multiplier": -1}})", ErrorCode::kCorrupt, "'output_multiplier' is -1");
  check_refused(R"({"dflash_config": {"output_multiplier": 0}})", ErrorCode::kCorrupt, "'output_multiplier' is 0");
  check_refused(R"({"num_hidden_layers": 0})", ErrorCode::kCorrupt, "'num_hidden_layers' is 0");
}

TEST_CASE("variants of DFlash that are not served are named") {
  check_refused(R"({"attention_bias": true})", ErrorCode::kUnsupported, "'attention_bias' is on");
  check_refused(R"({"dflash_config": {"attention_sink_bias": true}})", ErrorCode::kUnsupported, "'attention_sink_bias' is on");
  check_refused(R"({"attention_value_scale": 0.5})", ErrorCode::kUnsupported, "'attention_value_scale' is not 1");
  check_refused(R"({"is_neox_style": false})", ErrorCode::kUnsupported, "'is_neox_style' is false");
  check_refused(R"({"hidden_act": "gelu"})", ErrorCode::kUnsupported, "'hidden_act' is \"gelu\", not silu");
  check_refused(R"({"draft_vocab_size": 32})", ErrorCode::kUnsupported, "'draft_vocab_size' is 32 of 256 tokens");
  check_refused(R"({"quantization_config": {"quant_method": "fp8"}})", ErrorCode::kUnsupported, "'quantization_config' is given");
  MemoryCheckpoint own(CheckpointKind::kSafetensors);
  own.set_file("config.json", drafter_json().dump());
  REQUIRE(read_drafter_config(own).ok());
  own.set_file("mask_embedding.pt", "PK");
  const auto mask = read_drafter_config(own);
  REQUIRE_FALSE(mask.ok());
  CHECK(mask.error().code == ErrorCode::kUnsupported);
  CHECK(mask.error().message.starts_with("mask_embedding.pt: a drafter with a mask embedding"));
  CHECK(good(R"({"draft_vocab_size": 256, "attention_value_scale": 1.0})").block_rows == 16);
}

TEST_CASE("drafters of other families are refused by name") {
  const std::pair<const char*, const char*> families[] = {
      {R"({"architectures": ["DFlash2DraftModel"]})", "DFlash 2"},
      {R"({"dflash_config": {"conv_kernel_size": 2, "conv_group_size": 16}})", "DFlash 2"},
      {R"({"dflash_config": {"selector_rank": 256}})", "DFlash 2"},
      {R"({"architectures": ["Qwen3DSparkModel"]})", "DSpark"},
      {R"({"markov_rank": 256})", "DSpark"},
      {R"({"enable_confidence_head": true})", "DSpark"},
      {R"({"dflash_config": {"projector_type": "dspark"}})", "DSpark"},
      {R"({"dflash_config": {"projector_type": "domino"}})", "Domino"},
      {R"({"dflash_config": {"pure_draft_prefix_len": 1}})", "Domino"},
      {R"({"architectures": ["QwenDFlareModel"]})", "DFlare"},
      {R"({"architectures": ["DFlyDraftModel"]})", "DFly"},
      {R"({"architectures": ["LlamaForCausalLMEagle3"]})", "EAGLE"},
      {R"({"model_type": "eagle"})", "EAGLE"},
      {R"({"architectures": ["MedusaModel"]})", "Medusa"},
      {R"({"medusa_num_heads": 4})", "Medusa"},
      {R"({"architectures": ["HydraModel"]})", "Hydra"},
      {R"({"architectures": ["Qwen3NextMTP"]})", "MTP heads"},
      {R"({"num_nextn_predict_layers": 1})", "MTP heads"},
      {R"({"architectures": ["MLPSpeculatorPreTrainedModel"]})", "an MLP speculator"},
      {R"({"speculators_model_type": "dflash"})", "the speculators format"},
  };
  for (const auto& [patch, family] : families) check_refused(patch, ErrorCode::kUnsupported, family);
  check_refused(R"({"architectures": ["Qwen3ForCausalLM"]})", ErrorCode::kUnsupported, "\"Qwen3ForCausalLM\" is not a drafter");
  // What a file says stays on one line.
  check_refused(R"({"architectures": ["eagle\nerror: all is lost"]})", ErrorCode::kUnsupported, "EAGLE");
  check_refused(R"({"architectures": ["new\nline"]})", ErrorCode::kUnsupported, "is not a drafter");
  // Switched off, such keys say nothing.
  CHECK(good(R"({"markov_rank": 0, "enable_confidence_head": false, "num_nextn_predict_layers": 0})").block_rows == 16);
}

TEST_CASE("a drafter is paired with the target that it was made for") {
  const DrafterConfig c = good("{}");
  CHECK(check_pairing(c, target()).ok());
  const auto refused = [&](const DrafterConfig& drafter, const ModelConfig& t, const std::string& part) {
    const Status status = check_pairing(drafter, t);
    INFO(part);
    REQUIRE_FALSE(status.ok());
    INFO(status.error().message);
    CHECK(status.error().code == ErrorCode::kInvalidArgument);
    CHECK(status.error().message.find(part) != std::string::npos);
    CHECK(status.error().message.find('\n') == std::string::npos);
  };
  ModelConfig other = target();
  other.hidden = 128;
  refused(c, other, "'hidden_size' is 64, the target 'big' has 128");
  other = target();
  other.vocab = 512;
  refused(c, other, "'vocab_size' is 256, the target 'big' has 512 tokens");
  other = target();
  other.layers = 40;
  refused(c, other, "'num_target_layers' is 36, the target 'big' has 40");
  refused(good(R"({"target_hidden_size": 96})"), target(), "'target_hidden_size' is 96, the target 'big' has 64");
  // Without the keys that would tell at once, each id is still looked at.
  const DrafterConfig bare = good(R"({"num_target_layers": null, "vocab_size": null})");
  other = target();
  other.layers = 33;
  refused(bare, other, "'target_layer_ids' is 33, the target 'big' has layers 0 to 32");
  other = target();
  other.vocab = 251;
  refused(bare, other, "'mask_token_id' is 251, the target 'big' has ids 0 to 250");
}
