// See dummy_model.h.
#include "engine/model/dummy_model.h"

#include "engine/model/name_map.h"

namespace slipstream {

std::vector<DummyTensor> decoder_tensors(const ModelConfig& c) {
  std::vector<DummyTensor> tensors;
  const auto add = [&](Role role, int32_t layer, std::vector<int64_t> shape, std::string_view suffix = "weight") {
    tensors.push_back(
        {tensor_name(CheckpointKind::kSafetensors, role, layer, suffix), c.weights_dtype, std::move(shape)});
  };
  const auto matrix = [&](Role role, int32_t layer, int64_t rows, int64_t cols, bool bias) {
    add(role, layer, {rows, cols});
    if (c.fp8.scales != Fp8Scheme::Scales::kNone) {
      tensors.back().dtype = DType::kF8E4M3;
      const DType scales = c.fp8.scales == Fp8Scheme::Scales::kBlock ? DType::kBF16 : DType::kF32;
      tensors.push_back({sibling_name(tensors.back().name, c.fp8.suffix), scales, c.fp8.scale_shape(rows, cols)});
    }
    if (bias) add(role, layer, {rows}, "bias");
  };
  const int64_t hidden = c.hidden, q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
  add(Role::kEmbedding, 0, {c.vocab, hidden});
  for (int32_t l = 0; l < c.layers; ++l) {
    add(Role::kAttnNorm, l, {hidden});
    matrix(Role::kQ, l, q, hidden, c.qkv_bias);
    matrix(Role::kK, l, kv, hidden, c.qkv_bias);
    matrix(Role::kV, l, kv, hidden, c.qkv_bias);
    if (c.qk_norm) {
      add(Role::kQNorm, l, {c.head_dim});
      add(Role::kKNorm, l, {c.head_dim});
    }
    matrix(Role::kO, l, hidden, q, c.o_bias);
    add(Role::kMlpNorm, l, {hidden});
    matrix(Role::kGate, l, c.ffn, hidden, c.mlp_bias);
    matrix(Role::kUp, l, c.ffn, hidden, c.mlp_bias);
    matrix(Role::kDown, l, hidden, c.ffn, c.mlp_bias);
  }
  add(Role::kOutputNorm, 0, {hidden});
  if (!c.tied_embedding) add(Role::kOutput, 0, {c.vocab, hidden});
  return tensors;
}

Result<std::unique_ptr<Checkpoint>> open_dummy_model(const std::string& folder, uint64_t seed) {
  SLIP_TRY(const std::unique_ptr<Checkpoint> side_files, make_dummy_checkpoint(folder, seed, {}));
  SLIP_TRY(const ModelConfig config, read_model_config(*side_files));
  return make_dummy_checkpoint(folder, seed, decoder_tensors(config));
}

}  // namespace slipstream
