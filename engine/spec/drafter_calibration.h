// Finds the conventions of a drafter that its weights do not tell, by how well it predicts text that the target wrote. Each
// setting has a list of values; from the best config so far, all values of all settings are scored, the best change is made,
// and so on until none helps. So a config with one fault is two rounds, and the change names the fault. Owns the search and its
// report; knows no checkpoint and no command line.
//
// The block is found apart, since the first slots hardly feel it: rows that a drafter was never trained with draft far worse than
// the row before them, so it ends where the slots' shares collapse.
//
// Scores: the loss of the text's tokens in the first slots, compared anchor by anchor, decides, since it sees small faults that
// leave most drafts right; the acceptance length says whether the result is worth serving.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/model/drafter_facts.h"
#include "engine/spec/drafter_trial.h"

namespace slipstream {

/// One value of a setting, with everything else as in the result.
struct SettingValue {
  std::string text;
  double length = 0, first_slot = 0;  // acceptance length over the compared slots, share of first drafts right
  double loss = 0;                    // nats a token
  double behind = 0;                  // standard errors that it is worse than the result
  bool chosen = false, stated = false;
};

struct SettingTable {
  std::string key;                   // as config.json spells it
  bool stated = false;               // the config said it
  bool decided = false;              // every other value is clearly worse
  std::vector<SettingValue> values;  // best first
};

struct Calibration {
  /// Below this speculation is refused (drafts cost more than they bring).
  static constexpr double kLeastLength = 1.5;
  /// Slots that are compared.
  static constexpr int32_t kSlots = 3;

  DrafterConfig config;              // the best
  std::vector<double> slots;         // of it: share of each slot's drafts that were right
  double length = 0;                 // of it, at full width
  double stated_length = 0;          // of the config as it stood
  std::vector<SettingTable> tables;
  struct Fault {
    std::string key, stated, measured;
  };
  std::vector<Fault> faults;         // what the config says and measurement contradicts
  bool fits = false;
  std::string verdict;               // one line
  int32_t texts = 0, tokens = 0, anchors = 0, longest_context = 0, scores = 0;
};

struct CalibrationOptions {
  std::vector<int32_t> mask_tokens;  // values to try, beside the config's
  float target_theta = 10000, target_embedding_scale = 1;
  int32_t target_layers = 0;
  std::function<void(const std::string&)> progress;  // one short line; may be empty
};

/// `drafter` was made for blocks of at least kMostBlockRows rows and is left with the result's conventions.
inline constexpr int32_t kMostBlockRows = 16;
Calibration calibrate_drafter(DflashDrafter& drafter, DrafterTrial& trial, const DrafterFacts& facts, const CalibrationOptions& options);

/// For a terminal.
std::string calibration_text(const Calibration& result, const DrafterFacts& facts);
/// One JSON object.
std::string calibration_json(const Calibration& result, const DrafterFacts& facts);

}  // namespace slipstream
