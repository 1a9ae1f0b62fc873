// quantization_config of config.json: FP8 weights in the two spellings that are served, everything else refused by name.
//   quant_method "fp8"                 Qwen's, DeepSeek's and transformers' own (FineGrainedFP8Config; vLLM's Fp8Config)
//   quant_method "compressed-tensors"  format "float-quantized" (llm-compressor, vllm-project/compressed-tensors)
// Knows keys; what follows from them is fp8_scheme.h.
#include <algorithm>

#include "engine/model/config_json.h"
#include "engine/model/config_readers.h"

namespace slipstream {
namespace {

using nlohmann::json;

constexpr const char* kKey = "quantization_config";
constexpr int64_t kMaxBlockSide = 1 << 16;

Error refused(const std::string& what) {
  return unsupported("config.json: quantization_config " + what +
                         " is not served; use FP8 (e4m3) weights, the BF16 safetensors of the same model, or a GGUF "
                         "(Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4)",
                     kKey);
}

std::string short_text(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60); }

bool given(const json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

/// Lists of modules that stay in 16 bits: each tensor's dtype says the same, so only the type is checked.
Status check_module_list(const json& q, const char* key) {
  if (!given(q, key)) return Ok{};
  const json& list = q[key];
  const bool strings = list.is_array() && std::all_of(list.begin(), list.end(), [](const json& e) { return e.is_string(); });
  if (!strings) return corrupt("config.json: quantization_config '" + std::string(key) + "' is not a list of module names");
  return Ok{};
}

Result<Fp8Scheme> block_scheme(const json& sides, const char* key, std::string_view suffix) {
  const bool pair = sides.is_array() && sides.size() == 2 && sides[0].is_number_integer() && sides[1].is_number_integer();
  const auto side = [&](size_t i) { return pair ? sides[i].get<int64_t>() : 0; };
  if (!pair || side(0) < 1 || side(1) < 1 || side(0) > kMaxBlockSide || side(1) > kMaxBlockSide)
    return corrupt("config.json: quantization_config '" + std::string(key) + "' is " + short_text(sides) +
                   ", expected two integers from 1 to " + std::to_string(kMaxBlockSide) + " such as [128, 128]");
  return Fp8Scheme{Fp8Scheme::Scales::kBlock, side(0), side(1), suffix};
}

Result<Fp8Scheme> read_fp8(const json& q) {
  if (given(q, "fmt") && q["fmt"] != "e4m3") return refused("'fmt' " + short_text(q["fmt"]));
  if (given(q, "activation_scheme") && q["activation_scheme"] != "dynamic" && q["activation_scheme"] != "static")
    return corrupt("config.json: quantization_config 'activation_scheme' is " + short_text(q["activation_scheme"]) +
                   ", expected \"dynamic\" or \"static\"");
  SLIP_RETURN_IF_ERROR(check_module_list(q, "modules_to_not_convert"));
  SLIP_RETURN_IF_ERROR(check_module_list(q, "ignored_layers"));
  if (given(q, "weight_block_size")) return block_scheme(q["weight_block_size"], "weight_block_size", "weight_scale_inv");
  return Fp8Scheme{Fp8Scheme::Scales::kTensor, 0, 0, "weight_scale"};
}

/// One entry of config_groups.
Result<Fp8Scheme> read_group(const std::string& name, const json& group) {
  const std::string what = "group '" + name.substr(0, 40) + "'";
  if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object())
    return corrupt("config.json: quantization_config " + what + " has no object 'weights'");
  const json& w = group["weights"];
  const json bits = w.value("num_bits", json(nullptr)), type = w.value("type", json(nullptr));
  if (bits != 8 || type != "float") return refused(what + " with weights of num_bits " + short_text(bits) + " and type " + short_text(type));
  if (w.value("symmetric", json(true)) != true) return refused(what + " with asymmetric weights");
  if (w.value("dynamic", json(false)) != false) return refused(what + " with dynamic weights");
  const json strategy = w.value("strategy", json(nullptr));
  if (strategy == "tensor") return Fp8Scheme{Fp8Scheme::Scales::kTensor, 0, 0, "weight_scale"};
  if (strategy == "channel") return Fp8Scheme{Fp8Scheme::Scales::kChannel, 0, 0, "weight_scale"};
  if (strategy == "block") return block_scheme(w.value("block_structure", json(nullptr)), "block_structure", "weight_scale");
  return refused(what + " with strategy " + short_text(strategy));
}

/// Whether the checkpoint was calibrated for an FP8 cache: one E4M3 scale of K and one of V per layer.
Result<bool> read_cache_scheme(const json& q) {
  if (!given(q, "kv_cache_scheme")) return false;
  const json& s = q["kv_cache_scheme"];
  if (!s.is_object()) return corrupt("config.json: quantization_config 'kv_cache_scheme' is no object");
  const json bits = s.value("num_bits", json(nullptr)), type = s.value("type", json(nullptr)), strategy = s.value("strategy", json("tensor"));
  if (bits != 8 || type != "float") return refused("'kv_cache_scheme' of num_bits " + short_text(bits) + " and type " + short_text(type));
  if (strategy != "tensor") return refused("'kv_cache_scheme' with strategy " + short_text(strategy));
  if (s.value("symmetric", json(true)) != true) return refused("an asymmetric 'kv_cache_scheme'");
  if (s.value("dynamic", json(false)) != false) return refused("a dynamic 'kv_cache_scheme'");
  return true;
}

Result<Fp8Scheme> read_compressed_tensors(const json& q) {
  const json format = q.value("format", json(nullptr));
  if (format != "float-quantized") return refused("method 'compressed-tensors' with format " + short_text(format));
  if (given(q, "sparsity_config") && q["sparsity_config"].is_object() && !q["sparsity_config"].empty() &&
      q["sparsity_config"].value("format", json("dense")) != "dense")
    return refused("'sparsity_config' " + short_text(q["sparsity_config"]));
  if (given(q, "transform_config") && !q["transform_config"].empty()) return refused("'transform_config'");
  SLIP_RETURN_IF_ERROR(check_module_list(q, "ignore"));
  if (!given(q, "config_groups") || !q["config_groups"].is_object() || q["config_groups"].empty())
    return corrupt("config.json: quantization_config has no 'config_groups'");
  Fp8Scheme scheme;
  for (const auto& [name, group] : q["config_groups"].items()) {
    SLIP_TRY(const Fp8Scheme one, read_group(name, group));
    const bool first = scheme.scales == Fp8Scheme::Scales::kNone;
    if (!first && (one.scales != scheme.scales || one.block_rows != scheme.block_rows || one.block_cols != scheme.block_cols))
      return refused("with groups of different strategies");
    scheme = one;
  }
  SLIP_TRY(scheme.cache, read_cache_scheme(q));
  return scheme;
}

}  // namespace

Result<Fp8Scheme> read_fp8_scheme(const JsonFields& root) {
  const char* key = root.has(kKey) ? kKey : "compression_config";
  if (!root.has(key)) return Fp8Scheme{};
  const json& q = root.at(key);
  if (!q.is_object()) return root.bad(key, "an object");
  std::string method = "unknown";
  for (const char* name : {"quant_algo", "quant_method"})
    if (given(q, name) && q[name].is_string()) method = q[name].get<std::string>().substr(0, 40);
  if (method == "fp8") return read_fp8(q);
  if (method == "compressed-tensors") return read_compressed_tensors(q);
  return refused("method '" + method + "'");
}

}  // namespace slipstream
