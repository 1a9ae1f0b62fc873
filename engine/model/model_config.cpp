// read_model_config: picks the reader, then checks what holds for every container and merges the stop ids. Also the
// sampling defaults of generation_config.json.
#include <algorithm>
#include <filesystem>

#include "engine/base/log.h"
#include "engine/model/config_json.h"
#include "engine/model/config_readers.h"

namespace slipstream {
namespace {

std::string path_name(const std::string& path) {
  std::filesystem::path p(path);
  if (p.filename().empty()) p = p.parent_path();
  return p.filename().string();
}

/// Relations between fields, after each was checked alone.
Status check_relations(const ModelConfig& c) {
  if (c.heads % c.kv_heads != 0)
    return corrupt("model config: " + std::to_string(c.heads) + " attention heads are not a multiple of " +
                   std::to_string(c.kv_heads) + " key/value heads");
  if (c.head_dim % 2 != 0 || c.rope_dim % 2 != 0 || c.rope_dim < 2)
    return corrupt("model config: head size " + std::to_string(c.head_dim) + " and rotated size " +
                   std::to_string(c.rope_dim) + " must be even");
  if (static_cast<int64_t>(c.heads) * c.head_dim > kMaxHidden)
    return corrupt("model config: " + std::to_string(c.heads) + " heads of " + std::to_string(c.head_dim) +
                   " are over the bound of " + std::to_string(kMaxHidden));
  if (!(c.norm_eps > 0)) return corrupt("model config: the RMS norm epsilon is 0, expected a positive number");
  if (c.rope_attention_factor <= 0) return corrupt("model config: the RoPE attention factor is not positive");
  for (int32_t id : c.eos_ids)
    if (id >= c.vocab)
      return corrupt("model config: end-of-sequence id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(c.vocab));
  if (c.bos_id >= c.vocab)
    return corrupt("model config: begin-of-sequence id " + std::to_string(c.bos_id) + " is outside the vocabulary of " +
                   std::to_string(c.vocab));
  return Ok{};
}

/// generation_config.json, or null when there is none.
Result<nlohmann::json> read_generation_file(const Checkpoint& checkpoint) {
  if (checkpoint.kind() != CheckpointKind::kSafetensors) return nlohmann::json();
  auto text = checkpoint.read_side_file("generation_config.json", kMaxConfigBytes);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return nlohmann::json();
  if (!text.ok()) return std::move(text).error();
  return parse_json_object("generation_config.json", *text);
}

}  // namespace

Result<ModelConfig> read_model_config(const Checkpoint& checkpoint) {
  SLIP_TRY(ModelConfig c, checkpoint.kind() == CheckpointKind::kGguf ? read_gguf_config(checkpoint)
                                                                     : read_safetensors_config(checkpoint));
  if (c.name.empty()) c.name = path_name(checkpoint.path());

  SLIP_TRY(const nlohmann::json generation, read_generation_file(checkpoint));
  if (generation.is_object()) {
    SLIP_TRY(const std::vector<int32_t> more, JsonFields("generation_config.json", generation, nullptr).ids("eos_token_id"));
    c.eos_ids.insert(c.eos_ids.end(), more.begin(), more.end());
  }
  std::sort(c.eos_ids.begin(), c.eos_ids.end());
  c.eos_ids.erase(std::unique(c.eos_ids.begin(), c.eos_ids.end()), c.eos_ids.end());

  if (c.eos_ids.size() > kMaxModelStopIds)
    return corrupt("the config and generation_config.json name " + std::to_string(c.eos_ids.size()) +
                   " end-of-sequence ids; at most " + std::to_string(kMaxModelStopIds) + " are served");
  SLIP_RETURN_IF_ERROR(check_relations(c));
  for (const std::string& taken : c.defaults) log::info("model_config_default", {{"key", taken}});
  if (c.eos_ids.empty())
    log::warn("model_config_no_stop_id", {{"note", "no end-of-sequence id is given: output ends at its length limit"}});
  return c;
}

Result<GenerationDefaults> read_generation_defaults(const Checkpoint& checkpoint) {
  GenerationDefaults defaults;
  defaults.source = "built in";
  SLIP_TRY(const nlohmann::json document, read_generation_file(checkpoint));
  if (!document.is_object()) return defaults;
  defaults.source = "generation_config.json";
  const JsonFields fields("generation_config.json", document, nullptr);
  // do_sample is not read, as in vLLM: a request without a temperature is sampled, as OpenAI's clients expect.
  if (fields.has("temperature")) {
    SLIP_TRY(const double t, fields.number("temperature", 0, 100));
    defaults.temperature = static_cast<float>(t);
  }
  if (fields.has("top_p")) {
    SLIP_TRY(const double p, fields.number("top_p", 0, 1));
    // 0 keeps only the best token, as in transformers' filter; the sampler takes (0, 1].
    if (p <= 0) return fields.bad("top_p", "a number above 0 and at most 1");
    defaults.top_p = static_cast<float>(p);
  }
  if (fields.has("min_p")) {
    SLIP_TRY(const double p, fields.number("min_p", 0, 1));
    defaults.min_p = static_cast<float>(p);
  }
  if (fields.has("repetition_penalty")) {
    SLIP_TRY(const double p, fields.number("repetition_penalty", 1e-3, 100));
    defaults.repetition_penalty = static_cast<float>(p);
  }
  if (fields.has("top_k")) {
    SLIP_TRY(const int64_t k, fields.integer("top_k", 0, INT32_MAX));
    defaults.top_k = static_cast<int32_t>(k);
  }
  return defaults;
}

}  // namespace slipstream
