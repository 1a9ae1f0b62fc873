// A model for benchmarks: the Qwen3-8B or SmolLM2-135M shape, every tensor of a format in one buffer of random valid bytes, since
// time does not depend on values (zeros would run faster).
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "kernels/formats.h"

namespace slipstream::cuda::bench {

/// FP8 matrices have the scales of 128 x 128 blocks.
inline ModelConfig stored_as(ModelConfig config, DType dtype) {
  if (dtype == DType::kF8E4M3) config.fp8 = {Fp8Scheme::Scales::kBlock, 128, 128, "weight_scale_inv"};
  return config;
}

/// Tensors of the Qwen3-8B shape by their Hugging Face names.
class SharedBytesCheckpoint final : public Checkpoint {
 public:
  SharedBytesCheckpoint(const ModelConfig& c, DType dtype) {
    vector_.assign(static_cast<size_t>(std::max(c.hidden, c.ffn)), 1.0f);
    codes_.resize(static_cast<size_t>(int64_t{c.ffn} * c.hidden));  // codes of 2^-9 to 0.06, and scales of 1
    std::mt19937 rng(11);
    for (uint8_t& code : codes_) code = static_cast<uint8_t>(rng() & 0x9fu);
    const DType ends = dtype == DType::kF8E4M3 ? DType::kBF16 : dtype;
    fill(ends, int64_t{c.vocab} * c.hidden);
    add("model.embed_tokens.weight", ends, {c.vocab, c.hidden});
    if (!c.tied_embedding) add("lm_head.weight", ends, {c.vocab, c.hidden});
    add("model.norm.weight", DType::kF32, {c.hidden});
    for (int32_t l = 0; l < c.layers; ++l) {
      const std::string at = "model.layers." + std::to_string(l) + '.';
      add(at + "input_layernorm.weight", DType::kF32, {c.hidden});
      add(at + "post_attention_layernorm.weight", DType::kF32, {c.hidden});
      if (c.qk_norm) {
        add(at + "self_attn.q_norm.weight", DType::kF32, {c.head_dim});
        add(at + "self_attn.k_norm.weight", DType::kF32, {c.head_dim});
      }
      add(at + "self_attn.q_proj.weight", dtype, {int64_t{c.heads} * c.head_dim, c.hidden});
      add(at + "self_attn.k_proj.weight", dtype, {int64_t{c.kv_heads} * c.head_dim, c.hidden});
      add(at + "self_attn.v_proj.weight", dtype, {int64_t{c.kv_heads} * c.head_dim, c.hidden});
      add(at + "self_attn.o_proj.weight", dtype, {c.hidden, int64_t{c.heads} * c.head_dim});
      add(at + "mlp.gate_proj.weight", dtype, {c.ffn, c.hidden});
      add(at + "mlp.up_proj.weight", dtype, {c.ffn, c.hidden});
      add(at + "mlp.down_proj.weight", dtype, {c.hidden, c.ffn});
    }
    for (size_t i = 0; dtype == DType::kF8E4M3 && i < entries_.size(); ++i) {
      if (entries_[i].dtype != dtype) continue;
      const std::vector<int64_t> shape = c.fp8.scale_shape(entries_[i].shape[0], entries_[i].shape[1]);
      add(sibling_name(entries_[i].name, c.fp8.suffix), DType::kF32, shape);
    }
    std::ranges::sort(entries_, {}, &TensorEntry::name);
  }
  CheckpointKind kind() const override { return CheckpointKind::kSafetensors; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return metadata_; }
  Result<std::string> read_side_file(std::string_view name, uint64_t) const override { return not_found(std::string(name)); }
  void release(const TensorEntry&) override {}

 private:
  void fill(DType dtype, int64_t elements) {
    const DTypeInfo& info = dtype_info(dtype);
    // a few thousand random blocks, repeated
    std::mt19937 rng(7);
    std::normal_distribution<float> normal(0, 0.02f);
    std::vector<std::byte> pattern(static_cast<size_t>(info.block_bytes) * 4099);
    for (size_t at = 0; at < pattern.size(); at += static_cast<size_t>(info.block_bytes)) {
      if (can_quantize(dtype)) {
        std::vector<float> values(static_cast<size_t>(info.block_elements));
        for (float& v : values) v = normal(rng);
        quantize_row(dtype, values.data(), pattern.data() + at, info.block_elements);
        continue;
      }
      for (int32_t i = 0; i < info.block_bytes; ++i) pattern[at + static_cast<size_t>(i)] = static_cast<std::byte>(rng() & 255u);
      const uint16_t d = f32_to_f16(0.0005f), m = f32_to_f16(0.00025f);  // Q4_K: d, dmin lead the block
      std::memcpy(pattern.data() + at, &d, 2);
      std::memcpy(pattern.data() + at + 2, &m, 2);
    }
    bytes_.resize(static_cast<size_t>(row_bytes(dtype, elements)));
    for (size_t at = 0; at < bytes_.size(); at += pattern.size())
      std::memcpy(bytes_.data() + at, pattern.data(), std::min(pattern.size(), bytes_.size() - at));
  }
  void add(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    TensorEntry entry;
    entry.name = name;
    entry.dtype = dtype;
    int64_t elements = 1;
    for (const int64_t n : shape) elements *= n;
    entry.shape = std::move(shape);
    entry.data = dtype == DType::kF32 ? reinterpret_cast<const std::byte*>(vector_.data())
                 : dtype == DType::kF8E4M3 ? reinterpret_cast<const std::byte*>(codes_.data()) : bytes_.data();
    entry.bytes = static_cast<uint64_t>(row_bytes(dtype, elements));
    entries_.push_back(std::move(entry));
  }
  std::string path_ = "shared bytes";
  std::vector<TensorEntry> entries_;
  std::vector<float> vector_;
  std::vector<std::byte> bytes_;
  std::vector<uint8_t> codes_;
  std::map<std::string, MetaValue, std::less<>> metadata_;
};

inline ModelConfig qwen3_8b(int32_t layers) {
  ModelConfig c;
  c.architecture = "qwen3";
  c.name = "Qwen3-8B shape";
  c.layers = layers, c.hidden = 4096, c.heads = 32, c.kv_heads = 8, c.head_dim = 128, c.ffn = 12288, c.vocab = 151936;
  c.context_length = 40960, c.norm_eps = 1e-6f, c.qk_norm = true, c.rope_dim = 128, c.rope_theta = 1e6f;
  c.first_window_layer = layers;
  return c;
}

inline ModelConfig smollm2(int32_t) {
  ModelConfig c;
  c.architecture = "llama";
  c.name = "SmolLM2-135M shape";
  c.layers = 30, c.hidden = 576, c.heads = 9, c.kv_heads = 3, c.head_dim = 64, c.ffn = 1536, c.vocab = 49152;
  c.context_length = 8192, c.norm_eps = 1e-5f, c.tied_embedding = true, c.rope_dim = 64, c.rope_theta = 1e5f;
  c.first_window_layer = c.layers;
  return c;
}

}  // namespace slipstream::cuda::bench
