// See drafter_profile.h.
#include "engine/model/drafter_profile.h"

#include <algorithm>

#include "engine/model/config_json.h"
#include "engine/model/config_readers.h"
#include "engine/model/drafter_readers.h"

namespace slipstream {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "slipstream drafter profile 1";

ordered_json settings_json(const DrafterConfig& c) {
  ordered_json layers = ordered_json::array();
  for (const DrafterAttention& layer : c.attention) layers.push_back({{"window", layer.window}, {"causal", layer.causal}});
  ordered_json out = {{"target_layer_ids", c.taps},      {"mask_token_id", c.mask_token},
                      {"block_size", c.block_rows},      {"sample_from_anchor", c.anchor_first},
                      {"rope_theta", c.stack.rope_theta}, {"layers", layers}};
  if (c.embedding_scale) out["input_embedding_scale"] = *c.embedding_scale;
  return out;
}

Status read_settings(const JsonFields& fields, DrafterConfig* c) {
  SLIP_TRY(c->taps, fields.ids("target_layer_ids"));
  if (c->taps.empty() || c->taps.size() > static_cast<size_t>(kMaxTaps) || std::ranges::min(c->taps) < 0 ||
      std::ranges::max(c->taps) >= kMaxLayers)
    return fields.bad("target_layer_ids", "1 to " + std::to_string(kMaxTaps) + " layer indices from 0");
  SLIP_TRY(const int64_t mask, fields.integer("mask_token_id", 0, kMaxVocab - 1));
  SLIP_TRY(const int64_t block, fields.integer("block_size", 2, kMaxBlockRows));
  SLIP_TRY(c->anchor_first, fields.boolean_or("sample_from_anchor", false));
  SLIP_TRY(const double theta, fields.number("rope_theta", 1, 1e12));
  c->mask_token = static_cast<int32_t>(mask);
  c->block_rows = static_cast<int32_t>(block);
  c->stack.rope_theta = static_cast<float>(theta);
  if (fields.has("input_embedding_scale")) {
    SLIP_TRY(const double scale, fields.number("input_embedding_scale", 1e-6, 1e6));
    c->embedding_scale = static_cast<float>(scale);
  }
  if (!fields.has("layers")) return fields.missing("layers");
  const json& layers = fields.at("layers");
  if (!layers.is_array() || layers.empty() || layers.size() > static_cast<size_t>(kMaxLayers))
    return fields.bad("layers", "a list with an entry for each layer");
  for (const json& entry : layers) {
    if (!entry.is_object()) return fields.bad("layers", "a list of objects with window and causal");
    const JsonFields layer("profile layers", entry, nullptr);
    SLIP_TRY(const int64_t window, layer.integer("window", 0, kMaxContext));
    SLIP_TRY(const bool causal, layer.boolean_or("causal", false));
    c->attention.push_back({static_cast<int32_t>(window), causal});
  }
  return Ok{};
}

Error wrong_profile(const std::string& what) {
  return invalid_argument("speculative-config.profile: " + what, "speculative-config.profile");
}

}  // namespace

std::string drafter_fingerprint(const Checkpoint& checkpoint) {
  constexpr uint64_t kEdgeBytes = 1024;
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&hash](const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  };
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    add(tensor.name.data(), tensor.name.size() + 1);
    const auto dtype = static_cast<int32_t>(tensor.dtype);
    add(&dtype, sizeof dtype);
    add(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    if (tensor.data == nullptr) continue;
    const uint64_t edge = std::min(kEdgeBytes, tensor.bytes);
    add(tensor.data, edge);
    add(tensor.data + (tensor.bytes - edge), edge);
  }
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  return text;
}

std::string profile_json(const DrafterProfile& profile) {
  ordered_json out = {{"format", kFormat},
                      {"weights", profile.weights},
                      {"target", {{"layers", profile.target_layers}, {"hidden_size", profile.target_hidden}, {"vocab_size", profile.target_vocab}}},
                      {"fits", profile.fits},
                      {"acceptance_length", profile.length},
                      {"verdict", profile.verdict},
                      {"settings", settings_json(profile.settings)}};
  if (!profile.report.empty()) out["report"] = ordered_json::parse(profile.report, nullptr, false);
  return out.dump(2) + "\n";
}

Result<DrafterProfile> parse_profile(const std::string& file, const std::string& text) {
  SLIP_TRY(const json document, parse_json_object(file, text));
  const JsonFields root(file, document, nullptr);
  DrafterProfile profile;
  SLIP_TRY(const std::string format, root.text("format"));
  if (format != kFormat) return root.bad("format", std::string("\"") + kFormat + "\"");
  SLIP_TRY(profile.weights, root.text("weights"));
  SLIP_TRY(profile.fits, root.boolean_or("fits", false));
  SLIP_TRY(profile.length, root.number("acceptance_length", 0, 1e6));
  SLIP_TRY(profile.verdict, root.text("verdict"));
  for (const char* key : {"target", "settings"}) {
    if (!root.has(key)) return root.missing(key);
    if (!root.at(key).is_object()) return root.bad(key, "an object");
  }
  const JsonFields target(file + " target", root.at("target"), nullptr);
  SLIP_TRY(const int64_t layers, target.integer("layers", 1, kMaxLayers));
  SLIP_TRY(const int64_t hidden, target.integer("hidden_size", 1, kMaxHidden));
  SLIP_TRY(const int64_t vocab, target.integer("vocab_size", 1, kMaxVocab));
  profile.target_layers = static_cast<int32_t>(layers);
  profile.target_hidden = static_cast<int32_t>(hidden);
  profile.target_vocab = static_cast<int32_t>(vocab);
  SLIP_RETURN_IF_ERROR(read_settings(JsonFields(file + " settings", root.at("settings"), nullptr), &profile.settings));
  if (root.has("report")) profile.report = root.at("report").dump();
  return profile;
}

Result<DrafterConfig> apply_profile(const DrafterProfile& profile, const DrafterFacts& facts, const Checkpoint& drafter,
                                    const ModelConfig& target) {
  if (profile.weights != drafter_fingerprint(drafter))
    return wrong_profile("it was made for other weights than those of " + drafter.path() + "; run slipstream calibrate-drafter for them");
  if (profile.target_layers != target.layers || profile.target_hidden != target.hidden || profile.target_vocab != target.vocab)
    return wrong_profile("it was made with a target of " + std::to_string(profile.target_layers) + " layers, hidden size " +
                         std::to_string(profile.target_hidden) + " and " + std::to_string(profile.target_vocab) + " tokens, '" +
                         target.name + "' has " + std::to_string(target.layers) + ", " + std::to_string(target.hidden) + " and " +
                         std::to_string(target.vocab) + "; run slipstream calibrate-drafter with it");
  if (!profile.fits) return wrong_profile("nothing fits: " + profile.verdict + "; serve without speculation, or with method ngram");
  DrafterConfig config = facts.config;
  const DrafterConfig& settings = profile.settings;
  if (settings.taps.size() != config.taps.size() || settings.attention.size() != config.attention.size())
    return wrong_profile("it is of " + std::to_string(settings.taps.size()) + " taps and " + std::to_string(settings.attention.size()) +
                         " layers, the drafter has " + std::to_string(config.taps.size()) + " and " + std::to_string(config.attention.size()));
  config.taps = settings.taps;
  config.mask_token = settings.mask_token;
  config.block_rows = settings.block_rows;
  config.anchor_first = settings.anchor_first;
  config.attention = settings.attention;
  config.stack.rope_theta = settings.stack.rope_theta;
  config.embedding_scale = settings.embedding_scale;
  SLIP_RETURN_IF_ERROR(check_drafter_relations(config));
  SLIP_RETURN_IF_ERROR(check_pairing(config, target));
  return config;
}

}  // namespace slipstream
