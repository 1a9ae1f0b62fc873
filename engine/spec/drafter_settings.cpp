// See drafter_settings.h.
#include "engine/spec/drafter_settings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace slipstream {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

bool distinct_and_inside(const std::vector<int32_t>& taps, int32_t layers) {
  const std::set<int32_t> seen(taps.begin(), taps.end());
  return seen.size() == taps.size() && *seen.begin() >= 0 && *seen.rbegin() < layers;
}

std::vector<std::vector<int32_t>> tap_variants(const DrafterConfig& c, const CalibrationOptions& options) {
  const int32_t layers = options.target_layers, count = static_cast<int32_t>(c.taps.size());
  std::vector<std::vector<int32_t>> out = ruled_taps(layers, count, c.stack.layers);
  const auto shifted = [&](int32_t by) {
    std::vector<int32_t> taps = c.taps;
    for (int32_t& tap : taps) tap += by;
    return taps;
  };
  for (const int32_t by : {-1, 1}) out.push_back(shifted(by));
  // Every layer in place of a tap where that is few, neighbours where it is many.
  constexpr int32_t kAllLayers = 12;
  for (size_t t = 0; t < c.taps.size(); ++t) {
    for (int32_t layer = 0; layer < layers; ++layer) {
      if (layers > kAllLayers && std::abs(layer - c.taps[t]) > 2) continue;
      std::vector<int32_t> taps = c.taps;
      taps[t] = layer;
      out.push_back(std::move(taps));
    }
    for (size_t other = t + 1; other < c.taps.size(); ++other) {
      std::vector<int32_t> taps = c.taps;
      std::swap(taps[t], taps[other]);
      out.push_back(std::move(taps));
    }
  }
  // Every published list ascends: one that does is not left for one that does not.
  const bool ascends = std::ranges::is_sorted(c.taps);
  std::erase_if(out, [&](const auto& taps) { return !distinct_and_inside(taps, layers) || (ascends && !std::ranges::is_sorted(taps)); });
  return out;
}

/// Which layers slide: all subsets of a small stack, the published patterns of a larger one.
std::vector<std::vector<bool>> sliding_patterns(size_t layers) {
  std::vector<std::vector<bool>> out;
  if (layers <= 3) {
    for (uint32_t bits = 1; bits < 1u << layers; ++bits) {
      std::vector<bool>& pattern = out.emplace_back(layers);
      for (size_t l = 0; l < layers; ++l) pattern[l] = (bits >> l & 1) != 0;
    }
    return out;
  }
  for (const auto& [first, last] : {std::pair<size_t, size_t>{0, layers}, {0, layers - 1}, {1, layers}}) {
    std::vector<bool>& pattern = out.emplace_back(layers);
    for (size_t l = first; l < last; ++l) pattern[l] = true;
  }
  return out;
}

int32_t window_of(const DrafterConfig& c) {
  int32_t window = 0;
  for (const DrafterAttention& layer : c.attention) window = std::max(window, layer.window);
  return window;
}

std::vector<bool> pattern_of(const DrafterConfig& c) {
  std::vector<bool> out;
  for (const DrafterAttention& layer : c.attention) out.push_back(layer.window > 0);
  return out;
}

enum class Causality : uint8_t { kSliding, kAll, kNone };

DrafterConfig with_attention(DrafterConfig c, int32_t window, const std::vector<bool>& slides, Causality causality) {
  for (size_t l = 0; l < c.attention.size(); ++l) {
    const bool sliding = window > 0 && slides[l];
    c.attention[l] = {sliding ? window : 0, causality == Causality::kAll || (causality == Causality::kSliding && sliding)};
  }
  return c;
}

/// The rules of causality that give what the config has; several where no layer slides.
std::vector<Causality> causality_of(const DrafterConfig& c) {
  std::vector<Causality> out;
  for (const Causality rule : {Causality::kSliding, Causality::kNone, Causality::kAll}) {
    const DrafterConfig as = with_attention(c, window_of(c), pattern_of(c), rule);
    if (std::ranges::equal(as.attention, c.attention, [](const auto& a, const auto& b) { return a.causal == b.causal; }))
      out.push_back(rule);
  }
  if (out.empty()) out.push_back(Causality::kSliding);
  return out;
}

std::vector<DrafterConfig> window_variants(const DrafterConfig& c, int32_t longest_context) {
  const bool none = window_of(c) == 0;
  std::vector<std::vector<bool>> patterns = {pattern_of(c)};
  if (none) patterns = sliding_patterns(c.attention.size());
  std::vector<DrafterConfig> out = {with_attention(c, 0, patterns[0], causality_of(c).front())};
  for (int32_t step = 8; step < longest_context; step *= 2)
    for (const int32_t window : {step, step + step / 2})
      for (const auto& pattern : patterns)
        for (const Causality rule : causality_of(c))
          if (window < longest_context) out.push_back(with_attention(c, window, pattern, rule));
  return out;
}

std::vector<DrafterConfig> all_variants(Setting setting, const DrafterConfig& c, const CalibrationOptions& options,
                                        int32_t longest_context) {
  std::vector<DrafterConfig> out;
  const auto with = [&](auto change) {
    DrafterConfig variant = c;
    change(variant);
    out.push_back(std::move(variant));
  };
  switch (setting) {
    case Setting::kTaps:
      for (const auto& taps : tap_variants(c, options)) with([&](DrafterConfig& v) { v.taps = taps; });
      break;
    case Setting::kMask:
      for (const int32_t token : options.mask_tokens) with([&](DrafterConfig& v) { v.mask_token = token; });
      break;
    case Setting::kSlots:
      with([](DrafterConfig& v) { v.anchor_first = !v.anchor_first; });
      break;
    case Setting::kTheta:
      for (const float theta : {options.target_theta, 1e4f, 1e5f, 5e5f, 1e6f, 5e6f, 8e6f, 1e7f})
        with([&](DrafterConfig& v) { v.stack.rope_theta = theta; });
      break;
    case Setting::kWindow:
      return window_variants(c, longest_context);
    case Setting::kLayerTypes:
      if (window_of(c) > 0)
        for (const auto& pattern : sliding_patterns(c.attention.size()))
          for (const Causality rule : causality_of(c)) out.push_back(with_attention(c, window_of(c), pattern, rule));
      break;
    case Setting::kCausal:
      for (const Causality rule : {Causality::kSliding, Causality::kNone, Causality::kAll})
        out.push_back(with_attention(c, window_of(c), pattern_of(c), rule));
      break;
    case Setting::kBlock:
      for (int32_t rows = 4; rows <= kMostBlockRows; ++rows) with([&](DrafterConfig& v) { v.block_rows = rows; });
      break;
    case Setting::kEmbeddingScale:
      for (const float scale : {1.0f, options.target_embedding_scale, std::sqrt(static_cast<float>(c.target_hidden))})
        with([&](DrafterConfig& v) { v.embedding_scale = scale; });
      break;
  }
  return out;
}

}  // namespace

std::vector<std::vector<int32_t>> ruled_taps(int32_t layers, int32_t taps, int32_t draft_layers) {
  std::vector<std::vector<int32_t>> rules = {default_taps(layers, taps)};
  std::vector<int32_t> newer;  // round(linspace(5, N - 3, n)): DFlash 2's of 64 and of 45 layers
  for (int32_t i = 0; i < taps; ++i)
    newer.push_back(taps == 1 ? layers / 2 : static_cast<int32_t>(std::nearbyint(5 + static_cast<double>(i) * (layers - 8) / (taps - 1))));
  rules.push_back(newer);
  if (draft_layers > taps && draft_layers <= layers) {
    std::vector<int32_t> first = default_taps(layers, draft_layers);
    first.resize(static_cast<size_t>(taps));
    rules.push_back(std::move(first));
  }
  std::vector<std::vector<int32_t>> out;
  for (const auto& rule : rules)
    for (const int32_t by : {0, -1, 1}) {
      std::vector<int32_t> shifted = rule;
      for (int32_t& tap : shifted) tap += by;
      if (distinct_and_inside(shifted, layers) && std::ranges::find(out, shifted) == out.end()) out.push_back(std::move(shifted));
    }
  return out;
}

std::string_view setting_key(Setting setting) {
  switch (setting) {
    case Setting::kTaps: return "target_layer_ids";
    case Setting::kMask: return "mask_token_id";
    case Setting::kSlots: return "sample_from_anchor";
    case Setting::kTheta: return "rope_theta";
    case Setting::kWindow: return "sliding_window";
    case Setting::kLayerTypes: return "layer_types";
    case Setting::kCausal: return "is_causal";
    case Setting::kBlock: return "block_size";
    case Setting::kEmbeddingScale: return "input_embedding_scale";
  }
  return "";
}

std::string setting_text(Setting setting, const DrafterConfig& c, const CalibrationOptions& options) {
  std::string out;
  switch (setting) {
    case Setting::kTaps:
      for (const int32_t tap : c.taps) out += (out.empty() ? "" : ",") + std::to_string(tap);
      return out;
    case Setting::kMask: return std::to_string(c.mask_token);
    case Setting::kSlots: return c.anchor_first ? "true" : "false";
    case Setting::kTheta: return number(c.stack.rope_theta);
    case Setting::kWindow: return window_of(c) == 0 ? "none" : std::to_string(window_of(c));
    case Setting::kLayerTypes:
      for (const DrafterAttention& layer : c.attention) out += layer.window > 0 ? 'S' : 'F';
      return out;
    case Setting::kCausal:
      for (const DrafterAttention& layer : c.attention) out += layer.causal ? 'c' : 'n';
      return out;
    case Setting::kBlock: return std::to_string(c.block_rows);
    case Setting::kEmbeddingScale: return number(c.embedding_scale.value_or(options.target_embedding_scale));
  }
  return out;
}

bool setting_differs(Setting setting, const DrafterConfig& a, const DrafterConfig& b, const CalibrationOptions& options) {
  if (setting == Setting::kLayerTypes && (window_of(a) == 0 || window_of(b) == 0)) return false;
  if (setting == Setting::kCausal) {
    const std::vector<Causality> rules = causality_of(b);
    return std::ranges::none_of(causality_of(a), [&](Causality rule) { return std::ranges::find(rules, rule) != rules.end(); });
  }
  return setting_text(setting, a, options) != setting_text(setting, b, options);
}

std::string settings_text(const DrafterConfig& config, const CalibrationOptions& options) {
  std::string out;
  for (const Setting setting : kSettings) out += setting_text(setting, config, options) + ";";
  return out + setting_text(Setting::kBlock, config, options);
}

std::vector<DrafterConfig> setting_variants(Setting setting, const DrafterConfig& config, const CalibrationOptions& options,
                                            int32_t longest_context) {
  std::set<std::string> seen = {settings_text(config, options)};
  std::vector<DrafterConfig> out;
  for (DrafterConfig& variant : all_variants(setting, config, options, longest_context))
    if (variant.block_rows >= 2 && seen.insert(settings_text(variant, options)).second) out.push_back(std::move(variant));
  return out;
}

}  // namespace slipstream
