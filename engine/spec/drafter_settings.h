// The settings of a drafter that calibration looks at: how each is spelled, shown and varied. Knows configs; measures
// nothing.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/spec/drafter_calibration.h"

namespace slipstream {

enum class Setting : uint8_t { kTaps, kMask, kSlots, kTheta, kWindow, kLayerTypes, kCausal, kBlock, kEmbeddingScale };
/// Those that are changed one after another; the block is found by itself.
inline constexpr std::array kSettings = {Setting::kTaps,       Setting::kMask,   Setting::kSlots, Setting::kTheta, Setting::kWindow,
                                         Setting::kLayerTypes, Setting::kCausal, Setting::kEmbeddingScale};

std::string_view setting_key(Setting setting);
/// The value of a setting in a config.
std::string setting_text(Setting setting, const DrafterConfig& config, const CalibrationOptions& options);
/// `config` with other values of the setting, each once and the config's own not among them; longest_context: windows beyond it
/// cannot be told apart and are left out.
std::vector<DrafterConfig> setting_variants(Setting setting, const DrafterConfig& config, const CalibrationOptions& options,
                                            int32_t longest_context);
/// Whether the setting itself differs: a rule of causality that stays is not another one because other layers slide.
bool setting_differs(Setting setting, const DrafterConfig& a, const DrafterConfig& b, const CalibrationOptions& options);
/// All settings in one line: equal for configs that draft the same.
std::string settings_text(const DrafterConfig& config, const CalibrationOptions& options);

/// Lists of taps that the published rules give, for a config whose taps are not known.
std::vector<std::vector<int32_t>> ruled_taps(int32_t layers, int32_t taps, int32_t draft_layers);

}  // namespace slipstream
