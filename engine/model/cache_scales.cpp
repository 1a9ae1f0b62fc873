// See cache_scales.h.
#include "engine/model/cache_scales.h"

#include <cmath>
#include <string>

#include "kernels/formats.h"

namespace slipstream {
namespace {

/// What follows "model.layers.N.self_attn." and precedes "k_scale" or "v_scale": compressed-tensors, AutoFP8 and llm-compressor.
std::vector<std::string> places(char which) { return {"", std::string(1, which) + "_proj.", "attn."}; }

const TensorEntry* find_scale(const Checkpoint& checkpoint, int32_t layer, char which) {
  for (const std::string& place : places(which))
    if (const TensorEntry* entry = checkpoint.find("model.layers." + std::to_string(layer) + ".self_attn." + place + which + "_scale"))
      return entry;
  return nullptr;
}

Result<float> value_of(const TensorEntry& entry) {
  int64_t elements = 1;
  for (const int64_t size : entry.shape) elements *= size;
  const bool plain = entry.dtype == DType::kF32 || entry.dtype == DType::kF16 || entry.dtype == DType::kBF16;
  if (!plain || !entry.unserved.empty() || elements != 1)
    return unsupported("cache scale '" + entry.name + "' is " + std::to_string(elements) + " elements of " +
                       std::string(entry.unserved.empty() ? dtype_info(entry.dtype).name : entry.unserved) +
                       ", expected one F32, F16 or BF16; use --kv-cache-dtype bf16");
  float value = 0;
  dequantize_row(entry.dtype, entry.data, &value, 1);
  if (!std::isfinite(value) || value <= 0)
    return corrupt("cache scale '" + entry.name + "' is " + std::to_string(value) + ", not a positive number");
  return value;
}

}  // namespace

DType cache_dtype(std::string_view name, const ModelConfig& config) {
  if (name == "f32") return DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "fp8" || (name == "auto" && config.fp8.cache)) return DType::kF8E4M3;
  return DType::kBF16;
}

bool is_cache_scale(std::string_view tensor) {
  const size_t at = tensor.find(".self_attn.");
  if (at == std::string_view::npos) return false;
  const std::string_view rest = tensor.substr(at + std::string_view(".self_attn.").size());
  for (const char which : {'k', 'v'})
    for (const std::string& place : places(which))
      if (rest == place + which + "_scale") return true;
  return false;
}

Result<std::vector<CacheScale>> cache_scales(const Checkpoint& checkpoint, int32_t layers) {
  std::vector<CacheScale> scales;
  if (checkpoint.kind() != CheckpointKind::kSafetensors) return scales;
  std::string missing;
  for (int32_t layer = 0; layer < layers; ++layer)
    for (const char which : {'k', 'v'}) {
      const TensorEntry* entry = find_scale(checkpoint, layer, which);
      if (entry == nullptr) {
        missing = "model.layers." + std::to_string(layer) + ".self_attn." + which + "_scale";
        continue;
      }
      SLIP_TRY(const float value, value_of(*entry));
      scales.resize(static_cast<size_t>(layers));
      (which == 'k' ? scales[static_cast<size_t>(layer)].k : scales[static_cast<size_t>(layer)].v) = value;
    }
  if (!scales.empty() && !missing.empty())
    return corrupt("cache scale '" + missing + "' is missing from " + checkpoint.path() +
                   ", which has others; use --kv-cache-dtype bf16");
  return scales;
}

}  // namespace slipstream
