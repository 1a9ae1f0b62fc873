// The two readers behind read_model_config and the bounds they share. Internal to engine/model.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/model/model_config.h"

namespace slipstream {

// Far above every published dense model, low enough that no product of two of them leaves 64 bits.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHidden = 1 << 18;
inline constexpr int64_t kMaxHeads = 4096;
inline constexpr int64_t kMaxHeadDim = 1024;
inline constexpr int64_t kMaxFfn = 1 << 20;
inline constexpr int64_t kMaxVocab = 1 << 23;
inline constexpr int64_t kMaxContext = 1 << 26;
inline constexpr uint64_t kMaxConfigBytes = 4u << 20;

class JsonFields;
class MetaFields;

/// quantization_config of config.json (`root`): FP8 weights, none, or why what it says is not served.
Result<Fp8Scheme> read_fp8_scheme(const JsonFields& root);
/// Theta and scaling of config.json (`root`): rope_parameters (transformers 5), else rope_scaling; "rope_theta" may stand in
/// it or beside it.
Status read_json_rope(const JsonFields& root, ModelConfig& c);
/// The same from GGUF keys under `arch`, and from rope_freqs.weight.
Status read_gguf_rope(const Checkpoint& checkpoint, const MetaFields& arch, ModelConfig& c);
/// Refuses values of another width than the keys.
Status check_gguf_value_length(const MetaFields& arch, int64_t head_dim);
Result<ModelConfig> read_safetensors_config(const Checkpoint& checkpoint);
Result<ModelConfig> read_gguf_config(const Checkpoint& checkpoint);

/// YaRN's magnitude correction, 0.1 m ln(s) + 1 (arXiv 2309.00071, equation 22).
inline double yarn_mscale(double factor, double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; }

}  // namespace slipstream
