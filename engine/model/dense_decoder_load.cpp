// Filling DecoderWeights: roles, shapes and the sharding rule of each tensor, side by side.
#include "engine/model/dense_decoder.h"

namespace slipstream {
namespace {

/// q and k and v rows of this rank: whole heads.
WeightLoader::Piece head_rows(Role role, int64_t heads, const Slice& local, int64_t head_dim) {
  return {role, heads * head_dim, {local.first * head_dim, local.count * head_dim}};
}

/// Embedding, output norm and head, tied or not.
Status load_ends(WeightLoader& loader, DecoderWeights& weights) {
  const bool tied = loader.config().tied_embedding;
  SLIP_TRY(weights.embedding,
           loader.table(Role::kEmbedding, tied ? WeightRole::kEmbeddingHead : WeightRole::kEmbedding));
  SLIP_TRY(weights.output_norm, loader.norm(0, Role::kOutputNorm, loader.config().hidden));
  if (!tied) {
    SLIP_TRY(weights.head, loader.table(Role::kOutput, WeightRole::kLinear));
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<Model>> load_dense_decoder(WeightLoader& loader, LoadLayer load_layer) {
  DecoderWeights weights;
  SLIP_RETURN_IF_ERROR(load_ends(loader, weights));
  weights.layers.resize(static_cast<size_t>(loader.config().layers));
  for (int32_t layer = 0; layer < loader.config().layers; ++layer)
    SLIP_RETURN_IF_ERROR(load_layer(loader, layer, weights.layers[static_cast<size_t>(layer)]));
  return make_dense_decoder(loader, std::move(weights));
}

Status load_matrices(WeightLoader& loader, int32_t layer, DecoderLayer& into) {
  const ModelConfig& c = loader.config();
  const RankShare& share = loader.share();
  SLIP_TRY(into.attn_norm, loader.norm(layer, Role::kAttnNorm, c.hidden));
  SLIP_TRY(into.qkv, loader.linear(layer,
                                   {head_rows(Role::kQ, c.heads, share.heads, c.head_dim),
                                    head_rows(Role::kK, c.kv_heads, share.kv_heads, c.head_dim),
                                    head_rows(Role::kV, c.kv_heads, share.kv_heads, c.head_dim)},
                                   c.hidden));
  SLIP_TRY(into.o, loader.row_linear(layer, Role::kO, c.hidden, int64_t{c.heads} * c.head_dim, c.head_dim));
  SLIP_TRY(into.mlp_norm, loader.norm(layer, Role::kMlpNorm, c.hidden));
  SLIP_TRY(into.gate_up,
           loader.linear(layer, {{Role::kGate, c.ffn, share.ffn}, {Role::kUp, c.ffn, share.ffn}}, c.hidden));
  SLIP_TRY(into.down, loader.row_linear(layer, Role::kDown, c.hidden, c.ffn, 32));
  return Ok{};
}

Status load_biases(WeightLoader& loader, int32_t layer, DecoderLayer& into) {
  const ModelConfig& c = loader.config();
  const RankShare& share = loader.share();
  const Slice whole{0, c.hidden};
  if (c.qkv_bias) {
    SLIP_TRY(into.qkv_bias, loader.vector(layer,
                                          {head_rows(Role::kQ, c.heads, share.heads, c.head_dim),
                                           head_rows(Role::kK, c.kv_heads, share.kv_heads, c.head_dim),
                                           head_rows(Role::kV, c.kv_heads, share.kv_heads, c.head_dim)},
                                          "bias"));
  }
  if (c.o_bias) {
    SLIP_TRY(into.o_bias, loader.vector(layer, {{Role::kO, c.hidden, whole}}, "bias"));
  }
  if (c.mlp_bias) {
    SLIP_TRY(into.gate_up_bias,
             loader.vector(layer, {{Role::kGate, c.ffn, share.ffn}, {Role::kUp, c.ffn, share.ffn}}, "bias"));
    SLIP_TRY(into.down_bias, loader.vector(layer, {{Role::kDown, c.hidden, whole}}, "bias"));
  }
  return Ok{};
}

}  // namespace slipstream
