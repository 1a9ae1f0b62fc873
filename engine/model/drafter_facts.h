// A drafter's config where its file is missing or incomplete: what shapes and the target tell is taken from them, what
// neither tells is guessed and listed, for calibration to find (engine/spec/drafter_calibration.h). Knows keys and shapes;
// measures nothing.
#pragma once

#include <string>
#include <vector>

#include "engine/model/drafter_config.h"

namespace slipstream {

struct DrafterFacts {
  DrafterConfig config;
  /// Keys, as config.json spells them, whose values here are guesses: nothing may be served from them.
  std::vector<std::string> unknown;
  /// What was taken that nothing can measure, one line each.
  std::vector<std::string> notes;

  bool knows(std::string_view key) const;
};

/// kUnsupported names a foreign family; kCorrupt a key that is wrong or contradicted, or a tensor that is missing.
/// unused_token: a row of the embedding that texts do not use, the guess for the mask.
Result<DrafterFacts> infer_drafter_config(const Checkpoint& checkpoint, const ModelConfig& target, int32_t unused_token);

/// The published rule for `count` taps of `layers` (z-lab's build_target_layer_ids): round(1 + i (layers - 4) / (count - 1)),
/// halves to even; the middle layer for one.
std::vector<int32_t> default_taps(int32_t layers, int32_t count);

}  // namespace slipstream
