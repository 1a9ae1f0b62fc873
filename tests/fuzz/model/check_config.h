// What every fuzz target of a model's configuration checks: an accepted one is within its bounds, and can be loaded by
// name; a refusal is one line.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/model/dummy_model.h"
#include "engine/model/model_config.h"
#include "engine/model/rope.h"

namespace slipstream {

inline void check_config(const Result<ModelConfig>& config) {
  if (!config.ok()) {
    if (config.error().message.empty() || config.error().message.find('\n') != std::string::npos) std::abort();
    return;
  }
  if (config->layers < 1 || config->heads % config->kv_heads != 0 || config->head_dim % 2 != 0) std::abort();
  for (const int32_t id : config->eos_ids)
    if (id < 0 || id >= config->vocab) std::abort();
  for (const float f : rope_inverse_frequencies(*config))
    if (!(f >= 0 && f <= 1e6f)) std::abort();
  if (decoder_tensors(*config).empty()) std::abort();
}

}  // namespace slipstream
