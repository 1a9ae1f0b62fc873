// What a calibration found out about a drafter, as a small JSON file: the conventions that its weights do not tell, whose
// weights they belong to, and how well they scored. Owns that format; measures nothing.
#pragma once

#include <string>

#include "engine/model/drafter_facts.h"

namespace slipstream {

struct DrafterProfile {
  static constexpr int64_t kMaxBytes = 1 << 20;

  std::string weights;    // drafter_fingerprint of the checkpoint
  int32_t target_layers = 0, target_hidden = 0, target_vocab = 0;
  bool fits = false;      // whether anything fitted well enough to be served
  double length = 0;      // mean acceptance length on the target's text, drafts not used counted as one
  std::string verdict;    // one line
  DrafterConfig settings; // taps, mask, block, slots, RoPE base, attention and embedding scale; the rest is not stored
  std::string report;     // the calibration's tables as JSON text, kept for the reader; may be empty
};

/// Names, formats, shapes and the first and last bytes of every tensor, in 16 hex digits: tells mix-ups, not malice.
std::string drafter_fingerprint(const Checkpoint& checkpoint);

std::string profile_json(const DrafterProfile& profile);
/// `file` names the source in errors.
Result<DrafterProfile> parse_profile(const std::string& file, const std::string& text);

/// `facts` with the profile's settings in place of what was stated or guessed. kInvalidArgument when the profile is of other
/// weights, of another target or of another number of taps or layers, or says that nothing fits.
Result<DrafterConfig> apply_profile(const DrafterProfile& profile, const DrafterFacts& facts, const Checkpoint& drafter,
                                    const ModelConfig& target);

}  // namespace slipstream
