// See tiny_model.h.
#include "tests/model/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "engine/model/dummy_model.h"
#include "engine/model/model_config.h"

namespace slipstream::test {
namespace {

std::vector<float> dummy_values(uint64_t seed, const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  std::vector<float> values(static_cast<size_t>(count));
  fill_dummy(seed, {name, DType::kF32, shape}, 0, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

ModelConfig config_of(const Golden& golden) {
  MemoryCheckpoint side(CheckpointKind::kSafetensors);
  side.set_file("config.json", golden.config.dump());
  return read_model_config(side).value();
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

/// model.layers.1.self_attn.q_proj.weight -> blk.1.attn_q.weight
std::string gguf_name(std::string name) {
  const std::pair<const char*, const char*> pairs[] = {
      {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"},
      {"model.layers.", "blk."}, {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}};
  for (const auto& [from, to] : pairs) replace(name, from, to);
  return name;
}

/// Row h * D + 2 i + half of the result is row h * D + half * D / 2 + i of the input.
std::vector<float> permuted(const std::vector<float>& in, int64_t heads, int64_t head_dim) {
  const auto row = static_cast<int64_t>(in.size()) / (heads * head_dim);
  std::vector<float> out(in.size());
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < head_dim / 2; ++i)
      for (int64_t half = 0; half < 2; ++half)
        std::copy_n(in.begin() + (h * head_dim + half * head_dim / 2 + i) * row, row,
                    out.begin() + (h * head_dim + 2 * i + half) * row);
  return out;
}

/// Divisors of Llama 3's scaling in the wavelength form of its model card.
std::vector<float> llama3_divisors(const ModelConfig& c) {
  std::vector<float> out;
  const double context = c.rope_original_context;
  for (int32_t i = 0; i < c.head_dim; i += 2) {
    const double wave = 2 * 3.14159265358979323846 * std::pow(double{c.rope_theta}, double(i) / c.head_dim);
    const double smooth = (context / wave - c.rope_low_freq_factor) / (c.rope_high_freq_factor - c.rope_low_freq_factor);
    const double divisor = wave < context / c.rope_high_freq_factor  ? 1
                           : wave > context / c.rope_low_freq_factor ? c.rope_factor
                                                                     : 1 / ((1 - smooth) / c.rope_factor + smooth);
    out.push_back(static_cast<float>(divisor));
  }
  return out;
}

DType stored_as(const DummyTensor& tensor, DType dtype) { return tensor.shape.size() == 1 ? DType::kF32 : dtype; }

}  // namespace

std::vector<std::string> golden_names() {
  return {"llama-llama3-rope", "llama-tied",  "llama-biases", "llama-linear-rope5", "mistral-window",
          "qwen2-tied",        "qwen2-yarn",  "qwen2-upper-window", "qwen3",        "qwen3-tied-bias"};
}

std::vector<std::string> golden_f8_names() { return {"qwen3-fp8-block", "qwen3-fp8-channel"}; }

Golden read_golden(const std::string& name) {
  std::ifstream file(std::string(SLIP_FIXTURES) + "/golden/tiny-" + name + ".json");
  const nlohmann::json root = nlohmann::json::parse(file);
  Golden golden;
  golden.name = name;
  golden.config = root.at("config");
  golden.seed = root.at("seed").get<uint64_t>();
  golden.float32_error = root.at("float32_error").get<double>();
  for (const auto& p : root.at("prompts"))
    golden.prompts.push_back({p.at("ids").get<std::vector<int32_t>>(), p.at("positions").get<std::vector<int32_t>>(),
                              p.at("logits").get<std::vector<std::vector<double>>>()});
  return golden;
}

MemoryCheckpoint tiny_safetensors(const Golden& golden, DType dtype) {
  MemoryCheckpoint out(CheckpointKind::kSafetensors);
  out.set_file("config.json", golden.config.dump());
  for (const DummyTensor& tensor : decoder_tensors(config_of(golden))) {
    if (tensor.dtype == DType::kF8E4M3 || tensor.name.find("weight_scale") != std::string::npos) {
      int64_t count = 1;
      for (const int64_t n : tensor.shape) count *= n;
      std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(tensor.dtype, count)));
      fill_dummy(golden.seed, tensor, 0, count, bytes.data());
      out.add_stored(tensor.name, tensor.shape, tensor.dtype, std::move(bytes));
      continue;
    }
    out.add(tensor.name, tensor.shape, dummy_values(golden.seed, tensor.name, tensor.shape), stored_as(tensor, dtype));
  }
  return out;
}

MemoryCheckpoint tiny_gguf(const Golden& golden, DType dtype) {
  const ModelConfig c = config_of(golden);
  const std::string arch = c.architecture == "mistral" ? "llama" : c.architecture;
  const auto count = [](int32_t value) { return MetaValue(static_cast<uint64_t>(value)); };
  MemoryCheckpoint out(CheckpointKind::kGguf);
  out.set("general.architecture", arch);
  out.set(arch + ".block_count", count(c.layers));
  out.set(arch + ".embedding_length", count(c.hidden));
  out.set(arch + ".feed_forward_length", count(c.ffn));
  out.set(arch + ".attention.head_count", count(c.heads));
  out.set(arch + ".attention.head_count_kv", count(c.kv_heads));
  out.set(arch + ".attention.key_length", count(c.head_dim));
  out.set(arch + ".attention.layer_norm_rms_epsilon", double{c.norm_eps});
  out.set(arch + ".context_length", count(c.context_length));
  out.set(arch + ".rope.freq_base", double{c.rope_theta});
  if (c.sliding_window > 0) out.set(arch + ".attention.sliding_window", count(c.sliding_window));
  if (c.rope_scaling == RopeScaling::kLlama3) out.add("rope_freqs.weight", {c.head_dim / 2}, llama3_divisors(c));
  if (c.rope_scaling == RopeScaling::kLinear || c.rope_scaling == RopeScaling::kYarn) {
    const bool linear = c.rope_scaling == RopeScaling::kLinear;
    out.set(arch + ".rope.scaling.type", std::string(linear ? "linear" : "yarn"));
    out.set(arch + ".rope.scaling.factor", double{c.rope_factor});
    if (!linear) out.set(arch + ".rope.scaling.original_context_length", count(c.rope_original_context));
  }
  for (const DummyTensor& tensor : decoder_tensors(c)) {
    std::vector<float> values = dummy_values(golden.seed, tensor.name, tensor.shape);
    if (arch == "llama" && tensor.name.find("q_proj") != std::string::npos) values = permuted(values, c.heads, c.head_dim);
    if (arch == "llama" && tensor.name.find("k_proj") != std::string::npos)
      values = permuted(values, c.kv_heads, c.head_dim);
    out.add(gguf_name(tensor.name), tensor.shape, values, stored_as(tensor, dtype));
  }
  return out;
}

}  // namespace slipstream::test
