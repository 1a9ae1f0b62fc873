// The dtype of the K/V cache and the scales of an 8-bit one that a checkpoint may carry, one of K and one of V per layer. Knows
// tensor names and values; no cache, no kernel.
#pragma once

#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/model.h"

namespace slipstream {

/// Whether a safetensors tensor is such a scale, in one of the places where quantisation tools put them. A cache of another
/// dtype does not need them, so they may be left over.
bool is_cache_scale(std::string_view tensor);

/// Of a name that --kv-cache-dtype takes: f32, f16, bf16 or fp8 (kF8E4M3); "auto" is fp8 where the checkpoint was calibrated
/// for it, otherwise bf16.
DType cache_dtype(std::string_view name, const ModelConfig& config);

/// Per layer the scale of K and of V: an element of the cache stands for code * scale. Empty when the checkpoint has none.
/// Refuses a layer without, when others have them, and a scale that is no positive finite number.
Result<std::vector<CacheScale>> cache_scales(const Checkpoint& checkpoint, int32_t layers);

}  // namespace slipstream
