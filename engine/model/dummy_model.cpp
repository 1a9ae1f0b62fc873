// See dummy_model.h.
#include "engine/model/dummy_model.h"

#include <cctype>

#include "engine/model/name_map.h"

namespace slipstream {

std::vector<DummyTensor> decoder_tensors(const ModelConfig& c) { return decoder_tensors(c, c.weights_dtype); }

std::vector<DummyTensor> decoder_tensors(const ModelConfig& c, DType matrices) {
  std::vector<DummyTensor> tensors;
  const auto add = [&](Role role, int32_t layer, std::vector<int64_t> shape, std::string_view suffix = "weight") {
    const DType dtype = shape.size() > 1 ? matrices : c.weights_dtype;
    tensors.push_back({tensor_name(CheckpointKind::kSafetensors, role, layer, suffix), dtype, std::move(shape)});
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

Status choose_dummy_format(const std::string& name, ModelConfig* config, std::optional<DType>* matrices) {
  constexpr DType kFormats[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0,
                                DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,   DType::kQ5_K,
                                DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};
  if (name == "auto") return Ok{};
  if (name == "fp8") {
    config->fp8 = {Fp8Scheme::Scales::kBlock, 128, 128, "weight_scale_inv"};
    return Ok{};
  }
  std::string known = "auto, fp8";
  for (const DType dtype : kFormats) {
    std::string own(dtype_info(dtype).name);
    for (char& c : own) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (own == name) {
      config->fp8 = {};
      *matrices = dtype;
      return Ok{};
    }
    known += ", " + own;
  }
  return invalid_argument("dummy-format " + name + " is none of " + known, "dummy-format");
}

Result<std::unique_ptr<Checkpoint>> open_dummy_model(const std::string& folder) { return make_dummy_checkpoint(folder, 0, {}); }

}  // namespace slipstream
