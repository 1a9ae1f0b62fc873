// A target and its drafter loaded for calibration alone: weights on one Ops, a cache for each, texts written by the target.
// Knows checkpoints; no tokenizer and no command line.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/spec/drafter_calibration.h"

namespace slipstream {

struct CalibrationSize {
  int32_t texts = 16;
  int32_t prompt_tokens = 64;  // of the longest prompt
  int32_t tokens = 96;         // written to each
  int32_t anchors = 12;        // of each text
  DType cache_dtype = DType::kBF16;
};

class CalibrationSetup {
 public:
  /// Both checkpoints and `ops` outlive it. kInvalidArgument when the texts do not fit the target's or drafter's context.
  static Result<std::unique_ptr<CalibrationSetup>> load(Checkpoint& target, const ModelConfig& target_config, Checkpoint& drafter,
                                                        const DrafterFacts& facts, Ops& ops, const CalibrationSize& size);

  /// At most size.texts prompts, of at least one and at most size.prompt_tokens tokens. Once.
  void write(std::span<const std::vector<int32_t>> prompts, const std::vector<int32_t>& stop_ids,
             const std::function<void(int32_t, int32_t)>& progress);
  const WrittenText& text() const { return text_; }
  /// After write.
  Calibration calibrate(const DrafterFacts& facts, std::vector<int32_t> mask_tokens, const std::function<void(const std::string&)>& progress);

 private:
  CalibrationSetup(Ops& ops, const CalibrationSize& size) : ops_(ops), size_(size) {}

  static constexpr int32_t kRows = 64;  // of a step
  static constexpr int32_t kBlocks = 8; // of a draft

  Ops& ops_;
  const CalibrationSize size_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DflashDrafter> drafter_;
  KvCache target_kv_, drafter_kv_;
  std::unique_ptr<ScratchTables> target_tables_, drafter_tables_;
  WrittenText text_;
};

}  // namespace slipstream
