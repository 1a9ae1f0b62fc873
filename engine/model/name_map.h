// Which checkpoint tensor plays which role, for both containers. Knows names only: no shapes, no bytes.
#pragma once

#include <string>
#include <string_view>

#include "engine/weights/checkpoint.h"

namespace slipstream {

/// Roles of tensors in a dense Llama-family decoder, and in a drafter's stack (engine/model/drafter_tensors.h).
enum class Role : uint8_t {
  // once per model
  kEmbedding,
  kOutputNorm,
  kOutput,
  // once per layer
  kAttnNorm,
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  // once per drafter
  kFusion,
  kFusionNorm,
};

/// "model.layers.3.self_attn.q_proj.weight" or "blk.3.attn_q.weight". `suffix` is "weight" or "bias"; layer is
/// ignored for roles that stand once per model.
std::string tensor_name(CheckpointKind kind, Role role, int32_t layer, std::string_view suffix = "weight");

/// True for tensors that a checkpoint may hold and no op needs: precomputed rotary tables, RoPE divisors that
/// ModelConfig already took, and a stored copy of a tied head.
bool may_be_left_over(CheckpointKind kind, std::string_view name, bool tied_embedding);

/// How a family of checkpoints spells its tensors.
struct TensorNames {
  std::string (*of)(CheckpointKind kind, Role role, int32_t layer, std::string_view suffix);
  bool (*may_be_left_over)(CheckpointKind kind, std::string_view name, bool tied_embedding);
};
/// The two functions above.
extern const TensorNames kDecoderNames;

}  // namespace slipstream
