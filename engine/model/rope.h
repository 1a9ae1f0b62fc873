// Inverse frequencies of rotary embeddings with their scalings. Pure arithmetic.
#pragma once

#include <vector>

#include "engine/model/model_config.h"

namespace slipstream {

/// [rope_dim / 2]: theta^(-2i/dim), scaled as config.rope_scaling says, then divided by config.rope_freqs when given.
/// Computed in double, rounded once. Sources: RoFormer (arXiv 2104.09864), position interpolation (2306.15595),
/// YaRN (2309.00071), and the published Llama 3.1 rule for kLlama3.
std::vector<float> rope_inverse_frequencies(const ModelConfig& config);

}  // namespace slipstream
