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
  /// Rows of plain steps that wait for their context K and V, per slot: a pass over a few rows costs hardly more than over
  /// one. They go when a draft is due, when they are too many, and when a cache block became full, since it may be published then.
  static constexpr int32_t kWaitingRows = 16;
  /// Rows of the largest inject: what the drafter is to be made for.
  static int32_t inject_rows(int32_t max_rows, int32_t slots) { return max_rows + slots * kWaitingRows; }

  /// Before Ops::warm_up. max_rows: rows of the largest step; slots: as many blocks as the drafter was made for.
  DflashProposer(std::unique_ptr<DflashDrafter> drafter, Ops& ops, int32_t max_rows, int32_t slots);

  std::string name() const override { return "dflash"; }
  void attach(const KvViews& kv) override { kv_ = &kv; }
  Taps* taps() override { return &taps_; }
  void observe(const StandingRows& standing) override;
  /// A block of all the rows that the drafter was trained with, of which the first max_tokens slots are drafted; fewer rows
  /// where the sequence's blocks or the drafter's context end.
  void propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) override;

 private:
  /// Taps of positions [first, first + count) of the slot's sequence.
  struct Waiting {
    uint32_t generation = 0;
    int32_t first = 0, count = 0;
  };
  int32_t block_tokens() const { return kv_->layer(drafter_->cache_layer(0)).block_tokens; }
  float* tap_row(int32_t row) const { return memory_.as<float>() + row * tap_width_; }
  /// Whether rows up to `end` must get their K and V now.
  bool is_due(const Waiting& waiting, const StandingRows::Span& span, int32_t end) const;
  void add_span(const SpanRows& rows, const Waiting& waiting, std::span<const int32_t> step_rows, int32_t first_waiting);
  void inject(int32_t groups);

  const std::unique_ptr<DflashDrafter> drafter_;
  Ops& ops_;
  const KvViews* kv_ = nullptr;
  const int64_t tap_width_;        // taps * target_hidden
  const int32_t max_rows_;
  Buffer memory_;                  // [max rows + slots * kWaitingRows, tap_width]: of the forward, then what waits of each slot
  Buffer gathered_;                // [max rows + slots * kWaitingRows, tap_width]: of one inject
  Taps taps_;
  std::vector<Waiting> waiting_;   // [slots]
  // Of one inject: rows of memory_, their positions and spans.
  std::vector<int32_t> tap_rows_, positions_;
  std::vector<SpanRows> spans_;
  // Of one propose.
  std::vector<DraftBlock> blocks_;                // [requests that get a block]
  std::vector<size_t> owners_;                    // beside blocks_: the request
  std::vector<std::vector<int32_t>> proposals_;   // beside blocks_
};

}  // namespace slipstream
