// What every fuzz target of a model's configuration checks: an accepted one is within its bounds, and can be loaded by
// name; a refusal is one line. The same of a drafter's.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/model/drafter_tensors.h"
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

inline void check_drafter(const Result<DrafterConfig>& config) {
  if (!config.ok()) {
    if (config.error().message.empty() || config.error().message.find('\n') != std::string::npos) std::abort();
    return;
  }
  if (config->stack.heads % config->stack.kv_heads != 0 || config->block_rows < 2 || config->block_rows > kMaxBlockRows) std::abort();
  if (config->attention.size() != static_cast<size_t>(config->stack.layers) || config->taps.empty()) std::abort();
  for (const int32_t tap : config->taps)
    if (tap < 0) std::abort();
  for (const float f : rope_inverse_frequencies(config->stack))
    if (!(f >= 0 && f <= 1e6f)) std::abort();
  if (drafter_tensors(*config, DType::kBF16).size() != 11 * config->attention.size() + 3) std::abort();
}

}  // namespace slipstream
