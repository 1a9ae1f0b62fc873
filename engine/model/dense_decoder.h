// The dense Llama-family decoder: pre-norm attention with grouped key/value heads and RoPE, SwiGLU MLP, RMSNorm.
// llama.cpp, qwen2.cpp and qwen3.cpp say which tensors fill it. Knows roles and Ops; no checkpoint format.
#pragma once

#include <memory>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/weight_loader.h"

namespace slipstream {

/// One layer on one rank. H heads and G key/value heads of size D are this rank's; F is its share of the MLP.
struct DecoderLayer {
  Buffer attn_norm;                 // [hidden]
  std::unique_ptr<Weight> qkv;      // [(H + 2 G) D, hidden]: q | k | v
  Buffer qkv_bias;                  // [(H + 2 G) D], or empty
  Buffer q_norm, k_norm;            // [D], or empty
  std::unique_ptr<Weight> o;        // [hidden, H D], row-parallel
  Buffer o_bias;                    // [hidden], or empty
  Buffer mlp_norm;                  // [hidden]
  std::unique_ptr<Weight> gate_up;  // [2 F, hidden]: gate | up
  Buffer gate_up_bias;              // [2 F], or empty
  std::unique_ptr<Weight> down;     // [hidden, F], row-parallel
  Buffer down_bias;                 // [hidden], or empty
};

struct DecoderWeights {
  std::unique_ptr<Weight> embedding;  // [vocab, hidden]; also the head when tied
  std::vector<DecoderLayer> layers;
  Buffer output_norm;                 // [hidden]
  std::unique_ptr<Weight> head;       // [vocab, hidden], or null when tied
};

using LoadLayer = Status (*)(WeightLoader& loader, int32_t layer, DecoderLayer& into);

/// Loads embedding, output norm, head (tied or not) and every layer, then builds the Model.
Result<std::unique_ptr<Model>> load_dense_decoder(WeightLoader& loader, LoadLayer load_layer);

/// What every architecture has: two norms, q|k|v, o, gate|up, down.
Status load_matrices(WeightLoader& loader, int32_t layer, DecoderLayer& into);
/// Biases that the config switched on: q|k|v, o, MLP.
Status load_biases(WeightLoader& loader, int32_t layer, DecoderLayer& into);

/// Allocates the step's buffers for LoadOptions::max_rows. The weights are those of loader.ops().
std::unique_ptr<Model> make_dense_decoder(WeightLoader& loader, DecoderWeights weights);

}  // namespace slipstream
