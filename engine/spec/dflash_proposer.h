// The DFlash drafter as a source of drafts: takes the target's taps of each step, keeps the draft context in step with what
// was committed, and proposes one block for each sequence. Owns the taps' memory; the arithmetic is engine/model's. Knows no
// scheduler and no verification.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/dflash_drafter.h"
#include "engine/spec/drafter.h"

namespace slipstream {

class DflashProposer final : public Drafter {
 public:
  /// Before Ops::warm_up. max_rows: rows of the largest step; max_blocks: sequences that may want drafts at once, as the
  /// drafter was made for.
  DflashProposer(std::unique_ptr<DflashDrafter> drafter, Ops& ops, int32_t max_rows, int32_t max_blocks);

  std::string name() const override { return "dflash"; }
  void attach(const KvViews& kv) override { kv_ = &kv; }
  Taps* taps() override { return &taps_; }
  void observe(const StepInputs& committed, std::span<const int32_t> step_rows) override;
  /// A block of all the rows that the drafter was trained with, of which the first max_tokens slots are drafted; fewer rows
  /// where the sequence's blocks or the drafter's context end.
  void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) override;

 private:
  const std::unique_ptr<DflashDrafter> drafter_;
  Ops& ops_;
  const KvViews* kv_ = nullptr;
  const int64_t tap_width_;       // taps * target_hidden
  Buffer step_taps_;              // [max rows, tap_width]: of the forward
  Buffer standing_taps_;          // [max rows, tap_width]: of the rows that stand
  Taps taps_;
  std::vector<DraftBlock> blocks_;                // [requests that get a block]
  std::vector<size_t> owners_;                    // beside blocks_: the request
  std::vector<std::vector<int32_t>> proposals_;   // beside blocks_
};

}  // namespace slipstream
