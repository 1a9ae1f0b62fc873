// The shape of a DFlash drafter and the conventions it was trained with, read from config.json or GGUF metadata and
// validated. Knows names of families and keys; no tensor data.
//
// What stands here cannot be read from the weights and fails silently when it is wrong (drafts are then rejected, text
// stays right), so nothing of it is guessed: a key that is missing is an error, one that is said twice must agree.
// Formulas: arXiv 2602.06036; conventions: the authors' package `dflash` and the public checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/model_config.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

inline constexpr int32_t kMaxBlockRows = 32;  // kMaskRows: what an ancestor mask has bits for
inline constexpr int32_t kMaxTaps = 64;

/// What rows of a block see in one layer of the drafter, besides the context.
struct DrafterAttention {
  int32_t window = 0;   // a key is visible iff it is fewer positions than this away; 0: everything
  bool causal = false;  // a row sees no later row of its block
};

struct DrafterConfig {
  /// The stack of the drafter. vocab is the target's, or 0 where the config does not say; there is neither embedding nor
  /// head.
  ModelConfig stack;
  std::vector<DrafterAttention> attention;  // [stack.layers]
  /// Target layers, from 0, whose residual output (after the MLP, before any norm) is tapped, in the order of fusion.
  std::vector<int32_t> taps;
  int32_t target_hidden = 0;   // width of one tap
  int32_t target_layers = 0;   // 0: not stated
  int32_t block_rows = 0;      // the anchor and its masks
  int32_t mask_token = -1;
  /// False: row j predicts the token at its own position, so row 0 (the anchor) predicts nothing. True: row j predicts the
  /// token after its position, and row 0 is used.
  bool anchor_first = false;
  std::optional<float> embedding_scale, logit_softcap;  // the target's where not given; a softcap of 0 is none
  float logit_multiplier = 1;  // positive, so that it never changes an argmax

  /// Drafts of a block of `rows` rows.
  int32_t drafts(int32_t rows) const { return anchor_first ? rows : rows - 1; }
};

/// kUnsupported names a family that is not DFlash; kCorrupt a key that is missing, out of range or contradicted.
Result<DrafterConfig> read_drafter_config(const Checkpoint& checkpoint);

/// Whether the drafter was made for such a target: width, vocabulary, layers, taps and mask id. kInvalidArgument names the
/// key, its value and the target's.
Status check_pairing(const DrafterConfig& drafter, const ModelConfig& target);

}  // namespace slipstream
