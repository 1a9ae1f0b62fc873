// See drafter_calibration.h.
#include "engine/spec/drafter_calibration.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "engine/spec/drafter_settings.h"

namespace slipstream {
namespace {

constexpr int32_t kMostRounds = 24;
constexpr size_t kTableValues = 6;       // that a table keeps of a setting
// Standard errors that a change must lead by: to contradict what a config says, to replace a guess, to call a value decided,
// and to serve a drafter whose config did not say what decides everything.
constexpr double kContradicts = 4, kReplaces = 1.5, kDecides = 3, kDoubtful = 2;

std::string fixed(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

class Search {
 public:
  Search(DflashDrafter& drafter, DrafterTrial& trial, const DrafterFacts& facts, const CalibrationOptions& options)
      : drafter_(drafter), trial_(trial), facts_(facts), options_(options) {}

  Calibration run() {
    Calibration result;
    result.stated_length = facts_.unknown.empty() ? full_score(facts_.config).length() : 0;
    best_ = facts_.config;
    if (!facts_.knows("target_layer_ids") || !facts_.knows("mask_token_id")) try_pairs();
    for (int32_t round = 1; round <= kMostRounds; ++round) {
      std::optional<DrafterConfig> better = best_change(round, &result.tables);
      if (!better) break;
      best_ = std::move(*better);
    }
    result.tables.push_back(find_block());
    result.config = best_;
    const DraftScore whole = full_score(best_);
    result.length = whole.length();
    for (int32_t s = 0; s < whole.slots(); ++s) result.slots.push_back(whole.accuracy(s));
    for (const Setting setting : kSettings) note_fault(setting, &result);
    note_fault(Setting::kBlock, &result);
    result.anchors = trial_.anchors();
    result.longest_context = trial_.longest_context();
    result.scores = scores_;
    judge(&result);
    return result;
  }

 private:
  void note_fault(Setting setting, Calibration* result) const {
    if (facts_.knows(setting_key(setting)) && setting_differs(setting, facts_.config, best_, options_))
      result->faults.push_back({std::string(setting_key(setting)), setting_text(setting, facts_.config, options_),
                                setting_text(setting, best_, options_)});
  }

  const DraftScore& score(const DrafterConfig& config) {
    const std::string key = settings_text(config, options_);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    drafter_.assume(config);
    ++scores_;
    if (options_.progress) options_.progress(step_ + ", " + std::to_string(scores_) + " scores");
    return known_.emplace(key, trial_.score(drafter_, Calibration::kSlots)).first->second;
  }

  DraftScore full_score(const DrafterConfig& config) {
    drafter_.assume(config);
    return trial_.score(drafter_, config.drafts(config.block_rows));
  }

  /// Taps and mask together, where neither may show anything while the other is wrong: the published rules for the taps with
  /// a few of the masks.
  void try_pairs() {
    constexpr size_t kMasks = 8;
    step_ = "pairs of taps and mask";
    std::vector<std::vector<int32_t>> taps = {best_.taps};
    if (!facts_.knows("target_layer_ids"))
      taps = ruled_taps(options_.target_layers, static_cast<int32_t>(best_.taps.size()), best_.stack.layers);
    std::vector<int32_t> masks = {best_.mask_token};
    if (!facts_.knows("mask_token_id"))
      masks.insert(masks.end(), options_.mask_tokens.begin(), options_.mask_tokens.begin() + static_cast<ptrdiff_t>(std::min(kMasks, options_.mask_tokens.size())));
    DrafterConfig start = best_;
    for (const auto& list : taps) {
      for (const int32_t mask : masks) {
        DrafterConfig pair = start;
        pair.taps = list;
        pair.mask_token = mask;
        if (Lead(score(pair), score(best_)).nats > 0) best_ = pair;
      }
    }
  }

  /// The change of one setting that helps most; nothing when none is sure to help. Leaves the tables of what was seen.
  std::optional<DrafterConfig> best_change(int32_t round, std::vector<SettingTable>* tables) {
    tables->clear();
    std::optional<DrafterConfig> better;
    double gained = 0;
    for (const Setting setting : kSettings) {
      step_ = "round " + std::to_string(round) + ": " + std::string(setting_key(setting));
      const DraftScore& own = score(best_);
      SettingTable& table = tables->emplace_back();
      table.key = setting_key(setting);
      table.stated = facts_.knows(table.key);
      table.values.push_back(shown(setting, best_, own, 0));
      table.values.back().chosen = true;
      for (const DrafterConfig& variant : setting_variants(setting, best_, options_, trial_.longest_context())) {
        const DraftScore& other = score(variant);
        const Lead lead(other, own);
        table.values.push_back(shown(setting, variant, other, -lead.standard_errors));
        if (lead.nats <= gained || lead.standard_errors < (table.stated ? kContradicts : kReplaces)) continue;
        gained = lead.nats;
        better = variant;
      }
      finish(&table);
    }
    return better;
  }

  /// The slots of one block that is too large, up to where their shares collapse; the table holds the blocks around it.
  SettingTable find_block() {
    step_ = "block_size";
    SettingTable table;
    table.key = setting_key(Setting::kBlock);
    table.stated = facts_.knows(table.key);
    DrafterConfig wide = best_;
    wide.block_rows = std::max(kMostBlockRows, best_.block_rows);
    const DraftScore all = full_score(wide);
    const auto share = [&all](int32_t slot) { return slot < all.slots() ? all.accuracy(slot) : 0; };
    // Of trained slots each keeps about as much of the share before it as that one did, or more.
    constexpr double kCollapse = 0.7;
    const auto kept = [&](int32_t slot) { return share(slot) / std::max(share(slot - 1), 1e-9); };
    int32_t trained = 2;
    while (trained < all.slots() && !(kept(trained) < kCollapse * kept(trained - 1) && share(trained + 1) <= share(trained))) ++trained;
    table.decided = trained < all.slots() && all.length() >= Calibration::kLeastLength;
    const int32_t stated = best_.block_rows;
    if (table.decided) best_.block_rows = best_.anchor_first ? trained : trained + 1;
    for (const int32_t rows : {best_.block_rows - 2, best_.block_rows - 1, best_.block_rows, best_.block_rows + 1, best_.block_rows + 2, stated}) {
      DrafterConfig other = best_;
      other.block_rows = rows;
      const std::string text = setting_text(Setting::kBlock, other, options_);
      if (rows < 2 || rows > wide.block_rows || std::ranges::find(table.values, text, &SettingValue::text) != table.values.end()) continue;
      const DraftScore score = full_score(other);
      table.values.push_back(shown(Setting::kBlock, other, score, -Lead(score, full_score(best_)).standard_errors));
      table.values.back().chosen = rows == best_.block_rows;
    }
    return table;
  }

  SettingValue shown(Setting setting, const DrafterConfig& config, const DraftScore& score, double behind) const {
    SettingValue value;
    value.text = setting_text(setting, config, options_);
    if (setting == Setting::kWindow && value.text != "none")
      value.text += " (" + setting_text(Setting::kLayerTypes, config, options_) + ", " + setting_text(Setting::kCausal, config, options_) + ")";
    value.length = score.length();
    value.first_slot = score.slots() > 0 ? score.accuracy(0) : 0;
    value.loss = score.loss(Calibration::kSlots);
    value.behind = behind;
    value.stated = facts_.knows(setting_key(setting)) &&
                   setting_text(setting, config, options_) == setting_text(setting, facts_.config, options_);
    return value;
  }

  static void finish(SettingTable* table) {
    std::ranges::stable_sort(table->values, {}, &SettingValue::behind);
    table->decided = std::ranges::all_of(table->values, [](const SettingValue& v) { return v.chosen || v.behind >= kDecides; });
    std::vector<SettingValue> kept;
    for (const SettingValue& value : table->values)
      if (kept.size() < kTableValues || value.chosen || value.stated) kept.push_back(value);
    table->values = std::move(kept);
  }

  void judge(Calibration* result) const {
    const std::string length = fixed("%.2f", result->length);
    if (!(result->length >= Calibration::kLeastLength)) {
      result->verdict = "nothing fits: the best acceptance length is " + length + ", below " + fixed("%.1f", Calibration::kLeastLength);
      return;
    }
    for (const SettingTable& table : result->tables) {
      const bool vital = table.key == "target_layer_ids" || table.key == "mask_token_id" || table.key == "sample_from_anchor";
      for (const SettingValue& value : table.values)
        if (vital && !table.stated && !value.chosen && value.behind < kDoubtful) {
          result->verdict = "nothing fits clearly: " + table.key + " " + value.text + " is as good as what was found; measure on more text";
          return;
        }
    }
    result->fits = true;
    result->verdict = "fits: acceptance length " + length + " with blocks of " + std::to_string(result->config.block_rows) + " rows";
    for (const Calibration::Fault& fault : result->faults)
      result->verdict += "; " + fault.key + " is " + fault.measured + ", not " + fault.stated + " as the config says";
  }

  DflashDrafter& drafter_;
  DrafterTrial& trial_;
  const DrafterFacts& facts_;
  const CalibrationOptions& options_;
  DrafterConfig best_;
  std::map<std::string, DraftScore> known_;
  std::string step_;
  int32_t scores_ = 0;
};

}  // namespace

Calibration calibrate_drafter(DflashDrafter& drafter, DrafterTrial& trial, const DrafterFacts& facts, const CalibrationOptions& options) {
  return Search(drafter, trial, facts, options).run();
}

}  // namespace slipstream
