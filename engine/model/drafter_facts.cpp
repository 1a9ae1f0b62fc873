// See drafter_facts.h.
#include "engine/model/drafter_facts.h"

#include <algorithm>
#include <cmath>

#include "engine/model/config_json.h"
#include "engine/model/config_readers.h"
#include "engine/model/drafter_family.h"
#include "engine/model/drafter_readers.h"
#include "engine/model/drafter_tensors.h"

namespace slipstream {
namespace {

using nlohmann::json;

constexpr int32_t kGuessedBlock = 8;

/// Fills what a config.json misses.
class Completion {
 public:
  Completion(json document, DrafterFacts* facts) : document_(std::move(document)), facts_(facts) {}

  bool has(const char* key) const { return in(document_, key) || (document_.contains("dflash_config") && in(document_["dflash_config"], key)); }
  void shape(const char* key, int64_t value) {
    if (!has(key)) document_[key] = value;
  }
  void note(const char* key, const json& value) {
    if (has(key)) return;
    document_[key] = value;
    facts_->notes.push_back(std::string(key) + " is not stated: " + value.dump() + " is taken, which no measurement can tell");
  }
  void guess(const char* key, const json& value) {
    if (has(key)) return;
    document_[key] = value;
    unknown(key);
  }
  void unknown(const char* key) { facts_->unknown.emplace_back(key); }
  const json& document() const { return document_; }

 private:
  static bool in(const json& object, const char* key) {
    return object.is_object() && object.contains(key) && !object[key].is_null();
  }
  json document_;
  DrafterFacts* facts_;
};

bool has_theta(const json& document) {
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (document.contains(key) && document[key].is_object() && document[key].contains("rope_theta")) return true;
  return document.contains("rope_theta") && !document["rope_theta"].is_null();
}

Result<json> stated(const Checkpoint& checkpoint) {
  if (checkpoint.kind() == CheckpointKind::kGguf) return stated_by_gguf(checkpoint);
  const auto text = checkpoint.read_side_file("config.json", kMaxConfigBytes);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return json::object();
    return text.error();
  }
  return parse_json_object("config.json", *text);
}

Result<DrafterFacts> complete(const Checkpoint& checkpoint, const ModelConfig& target, int32_t unused_token) {
  SLIP_TRY(const DrafterShape shape, read_drafter_shape(checkpoint));
  if (shape.fused_width % target.hidden != 0)
    return invalid_argument("drafter: its fusion reads " + std::to_string(shape.fused_width) + " values, not a multiple of the target's " +
                                "hidden size of " + std::to_string(target.hidden) + "; use the drafter that was trained for this target",
                            "speculative_config.model");
  const auto taps = static_cast<int32_t>(shape.fused_width / target.hidden);
  if (taps < 1 || taps > std::min(kMaxTaps, target.layers))
    return invalid_argument("drafter: its fusion reads " + std::to_string(taps) + " hidden states, the target has " +
                                std::to_string(target.layers) + " layers; use the drafter that was trained for this target",
                            "speculative_config.model");
  SLIP_TRY(json document, stated(checkpoint));
  DrafterFacts facts;
  Completion c(std::move(document), &facts);
  c.shape("num_hidden_layers", shape.layers);
  c.shape("hidden_size", shape.hidden);
  c.shape("num_attention_heads", shape.heads);
  c.shape("num_key_value_heads", shape.kv_heads);
  c.shape("head_dim", shape.head_dim);
  c.shape("intermediate_size", shape.ffn);
  c.note("max_position_embeddings", target.context_length);
  c.note("rms_norm_eps", 1e-6);
  c.guess("target_layer_ids", default_taps(target.layers, taps));
  c.guess("mask_token_id", unused_token >= 0 && unused_token < target.vocab ? unused_token : target.vocab - 1);
  c.guess("block_size", kGuessedBlock);
  if (!has_theta(c.document())) c.guess("rope_theta", target.rope_theta);
  const bool some_window = c.has("layer_types") || c.has("use_sliding_window") || c.has("use_swa");
  if (!some_window) c.unknown("sliding_window");
  if (some_window) c.guess("sliding_window", target.context_length);
  const bool nothing = c.document().empty() || !c.has("architectures");
  for (const char* key : {"is_causal", "sample_from_anchor"})
    if (nothing && !c.has(key)) c.unknown(key);
  json whole = c.document();
  if (!c.has("architectures")) whole["architectures"] = {"DFlashDraftModel"};
  SLIP_TRY(facts.config, parse_drafter_json(whole));
  SLIP_RETURN_IF_ERROR(check_drafter_relations(facts.config));
  return facts;
}

}  // namespace

bool DrafterFacts::knows(std::string_view key) const { return std::ranges::find(unknown, key) == unknown.end(); }

std::vector<int32_t> default_taps(int32_t layers, int32_t count) {
  if (count == 1) return {layers / 2};
  std::vector<int32_t> taps;
  for (int32_t i = 0; i < count; ++i) {
    const auto tap = static_cast<int32_t>(std::nearbyint(1 + static_cast<double>(i) * (layers - 4) / (count - 1)));
    taps.push_back(std::clamp(tap, taps.empty() ? 0 : taps.back() + 1, layers - count + i));  // few layers: still different ones
  }
  return taps;
}

Result<DrafterFacts> infer_drafter_config(const Checkpoint& checkpoint, const ModelConfig& target, int32_t unused_token) {
  SLIP_RETURN_IF_ERROR(refuse_foreign_tensors(checkpoint));
  auto whole = read_drafter_config(checkpoint);
  DrafterFacts facts;
  if (whole.ok()) {
    facts.config = std::move(*whole);
  } else {
    if (whole.error().code == ErrorCode::kUnsupported) return whole.error();
    SLIP_TRY(facts, complete(checkpoint, target, unused_token));
  }
  SLIP_RETURN_IF_ERROR(check_pairing(facts.config, target));
  return facts;
}

}  // namespace slipstream
