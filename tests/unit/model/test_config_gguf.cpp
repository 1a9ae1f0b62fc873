#include <cmath>

#include "tests/unit/model/config_fixture.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

MemoryCheckpoint llama_gguf() {
  MemoryCheckpoint c(CheckpointKind::kGguf);
  c.set("general.architecture", std::string("llama"));
  c.set("general.name", std::string("tiny"));
  c.set("llama.block_count", uint64_t{2});
  c.set("llama.embedding_length", uint64_t{64});
  c.set("llama.feed_forward_length", uint64_t{128});
  c.set("llama.attention.head_count", uint64_t{4});
  c.set("llama.attention.head_count_kv", uint64_t{2});
  c.set("llama.context_length", uint64_t{512});
  c.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
  c.set("llama.rope.freq_base", 100000.0);
  c.set("llama.rope.dimension_count", uint64_t{16});
  c.set("tokenizer.ggml.bos_token_id", uint64_t{1});
  c.set("tokenizer.ggml.eos_token_id", uint64_t{2});
  c.set("tokenizer.ggml.eot_token_id", uint64_t{5});
  c.set("tokenizer.ggml.eom_token_id", uint64_t{2});
  c.add("token_embd.weight", {320, 64}, std::vector<float>(320 * 64));
  return c;
}

void check_refused(const MemoryCheckpoint& checkpoint, ErrorCode code, const std::string& part) {
  const auto result = read_model_config(checkpoint);
  INFO(part);
  REQUIRE_FALSE(result.ok());
  INFO(result.error().message);
  CHECK(result.error().code == code);
  CHECK(result.error().message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("GGUF metadata of a llama file") {
  auto c = read_model_config(llama_gguf());
  REQUIRE(c.ok());
  CHECK(c->architecture == "llama");
  CHECK(c->name == "tiny");
  CHECK(c->layers == 2);
  CHECK(c->hidden == 64);
  CHECK(c->heads == 4);
  CHECK(c->kv_heads == 2);
  CHECK(c->head_dim == 16);
  CHECK(c->ffn == 128);
  CHECK(c->vocab == 320);  // rows of the embedding
  CHECK(c->context_length == 512);
  CHECK(c->norm_eps == 1e-5f);
  CHECK(c->rope_theta == 100000.0f);
  CHECK(c->rope_style == RopeStyle::kInterleaved);
  CHECK(c->tied_embedding);
  CHECK_FALSE(c->qkv_bias);
  CHECK(c->bos_id == 1);
  CHECK(c->eos_ids == std::vector<int32_t>{2, 5});
  CHECK(c->defaults == std::vector<std::string>{"llama.attention.key_length = 16"});
}

TEST_CASE("tensors tell what no key does") {
  MemoryCheckpoint file = llama_gguf();
  file.add("output.weight", {320, 64}, std::vector<float>(320 * 64));
  file.add("blk.0.attn_q.bias", {64}, std::vector<float>(64));
  file.add("blk.0.ffn_up.bias", {128}, std::vector<float>(128));
  file.add("rope_freqs.weight", {8}, {1, 1, 1, 2, 4, 8, 8, 8});
  auto c = read_model_config(file);
  REQUIRE(c.ok());
  CHECK_FALSE(c->tied_embedding);
  CHECK(c->qkv_bias);
  CHECK_FALSE(c->o_bias);
  CHECK(c->mlp_bias);
  CHECK(c->rope_freqs == std::vector<float>{1, 1, 1, 2, 4, 8, 8, 8});

  file.add("rope_freqs.weight", {4}, {1, 1, 1, 1});
  check_refused(file, ErrorCode::kCorrupt, "rope_freqs.weight");
  file.add("rope_freqs.weight", {8}, {1, 1, 1, 0, 4, 8, 8, 8});
  check_refused(file, ErrorCode::kCorrupt, "holds 0.000000, expected 0.001 to 1000000");
  file.add("rope_freqs.weight", {8}, {1, 1, 1, 1e-40f, 4, 8, 8, 8});  // positive, but its inverse is infinite
  check_refused(file, ErrorCode::kCorrupt, "expected 0.001 to 1000000");
  file.add("rope_freqs.weight", {8}, {1, 1, 1, NAN, 4, 8, 8, 8});
  check_refused(file, ErrorCode::kCorrupt, "holds nan");
  file = llama_gguf();
  file.remove("token_embd.weight");
  check_refused(file, ErrorCode::kCorrupt, "token_embd.weight");
}

TEST_CASE("qwen files use half-split RoPE and their own keys") {
  MemoryCheckpoint file = llama_gguf();
  MemoryCheckpoint qwen(CheckpointKind::kGguf);
  for (const auto& [key, value] : file.metadata())
    qwen.set(key.starts_with("llama.") ? "qwen3." + key.substr(6) : key, value);
  qwen.set("general.architecture", std::string("qwen3"));
  qwen.set("qwen3.attention.key_length", uint64_t{32});
  qwen.set("qwen3.attention.value_length", uint64_t{32});
  qwen.set("qwen3.rope.dimension_count", uint64_t{32});
  qwen.add("token_embd.weight", {320, 64}, std::vector<float>(320 * 64));
  const auto c = read_model_config(qwen);
  REQUIRE(c.ok());
  CHECK(c->rope_style == RopeStyle::kHalfSplit);
  CHECK(c->head_dim == 32);
  CHECK(c->qk_norm);
}

TEST_CASE("RoPE scaling keys") {
  MemoryCheckpoint file = llama_gguf();
  file.set("llama.rope.scaling.type", std::string("linear"));
  file.set("llama.rope.scaling.factor", 4.0);
  CHECK(read_model_config(file)->rope_scaling == RopeScaling::kLinear);
  CHECK(read_model_config(file)->rope_factor == 4.0f);
  file.set("llama.rope.scaling.type", std::string("yarn"));
  file.set("llama.rope.scaling.original_context_length", uint64_t{128});
  CHECK(read_model_config(file)->rope_scaling == RopeScaling::kYarn);
  CHECK(read_model_config(file)->rope_original_context == 128);
  CHECK(read_model_config(file)->rope_attention_factor == Approx(1.138629436));
  file.set("llama.rope.scaling.type", std::string("longrope"));
  check_refused(file, ErrorCode::kUnsupported, "longrope");
  file = llama_gguf();
  file.set("llama.rope.scale_linear", 2.0);
  CHECK(read_model_config(file)->rope_scaling == RopeScaling::kLinear);
}

TEST_CASE("refusals name the key") {
  MemoryCheckpoint file = llama_gguf();
  file.set("llama.expert_count", uint64_t{8});
  check_refused(file, ErrorCode::kUnsupported, "8 experts");
  file = llama_gguf();
  file.set("general.architecture", std::string("glm-dsa"));
  check_refused(file, ErrorCode::kUnsupported, "glm-dsa");
  file = llama_gguf();
  file.erase("llama.block_count");
  check_refused(file, ErrorCode::kCorrupt, "llama.block_count");
  file = llama_gguf();
  file.set("llama.block_count", uint64_t{UINT64_MAX});
  check_refused(file, ErrorCode::kCorrupt, "llama.block_count");
  file = llama_gguf();
  file.set("llama.block_count", std::string("2"));
  check_refused(file, ErrorCode::kCorrupt, "not an integer");
  file = llama_gguf();
  file.set("llama.attention.head_count_kv", std::vector<int64_t>{2, 2});
  CHECK(read_model_config(file)->kv_heads == 2);
  file.set("llama.attention.head_count_kv", std::vector<int64_t>{2, 4});
  check_refused(file, ErrorCode::kUnsupported, "differs from layer to layer");
  file = llama_gguf();
  file.set("llama.attention.value_length", uint64_t{32});
  check_refused(file, ErrorCode::kUnsupported, "value_length 32");
  file = llama_gguf();
  file.set("llama.attention.layer_norm_rms_epsilon", std::nan(""));
  check_refused(file, ErrorCode::kCorrupt, "epsilon");
  file = llama_gguf();
  file.set("tokenizer.ggml.eos_token_id", uint64_t{320});
  check_refused(file, ErrorCode::kCorrupt, "320");
}
