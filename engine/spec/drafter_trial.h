// How good a drafter is on text that its target wrote: at chosen anchors it drafts as it would while serving, and each slot
// is compared with the text. Owns the anchors; borrows text, cache and drafter. Knows no engine and no request.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/dflash_drafter.h"
#include "engine/spec/target_text.h"

namespace slipstream {

/// Of each anchor and slot. A slot behind the end of its text is not there.
class DraftScore {
 public:
  DraftScore(int32_t anchors, int32_t slots) : slots_(slots), cells_(static_cast<size_t>(anchors) * static_cast<size_t>(slots)) {}

  struct Cell {
    bool there = false, hit = false;
    float loss = 0;  // -log of the text's token under the drafter, in nats
  };
  Cell& at(int32_t anchor, int32_t slot) { return cells_[static_cast<size_t>(anchor * slots_ + slot)]; }
  const Cell& at(int32_t anchor, int32_t slot) const { return cells_[static_cast<size_t>(anchor * slots_ + slot)]; }

  int32_t anchors() const { return slots_ == 0 ? 0 : static_cast<int32_t>(cells_.size()) / slots_; }
  int32_t slots() const { return slots_; }
  /// Share of the texts' tokens that slot drafted, from 0.
  double accuracy(int32_t slot) const;
  /// Tokens of a round as verification would emit them: one, and drafts up to the first that is wrong.
  double length() const;
  /// Mean over anchors of the mean loss of the first `slots`, in nats.
  double loss(int32_t slots) const;

 private:
  friend struct Lead;
  /// Mean loss of an anchor's first slots; false when it has none.
  bool anchor_loss(int32_t anchor, int32_t slots, double* loss) const;
  int32_t slots_;
  std::vector<Cell> cells_;
};

/// How much better `a` predicts the text than `b`, anchor by anchor over the slots that both have.
struct Lead {
  Lead(const DraftScore& a, const DraftScore& b);
  double nats = 0;             // of mean loss; positive: a is better
  /// The mean of the logarithms of the losses' ratios over its standard error: a few hard places do not drown the many easy
  /// ones. 0 when the two are equal everywhere.
  double standard_errors = 0;
};

class DrafterTrial {
 public:
  struct Options {
    int32_t anchors = 12;    // of each text at most, evenly spaced
    int32_t max_rows = 64;   // of one inject, at most what the drafter was made for
    int32_t max_blocks = 1;  // of one draft, the same
    bool losses = true;      // false: hits alone
  };
  /// `kv` holds the drafter's layers; `tables` leave room for a block behind the longest text. All outlive the trial.
  DrafterTrial(const WrittenText& text, Ops& ops, const KvViews& kv, const ScratchTables& tables, const Options& options);

  /// Injects every text and drafts at every anchor; at most `slots` slots of a block count. The drafter's taps are among the
  /// text's layers.
  DraftScore score(DflashDrafter& drafter, int32_t slots);
  int32_t anchors() const { return static_cast<int32_t>(anchors_.size()); }
  /// Positions before the last anchor: what the longest window could hide.
  int32_t longest_context() const { return longest_context_; }

 private:
  struct Anchor {
    int32_t sequence, position;
  };
  void inject(DflashDrafter& drafter);
  void draft(DflashDrafter& drafter, std::span<const int32_t> anchors, int32_t slots, DraftScore* score);
  float loss(const DflashDrafter& drafter, const float* scores, int32_t token);

  const WrittenText& text_;
  Ops& ops_;
  const KvViews& kv_;
  const ScratchTables& tables_;
  const Options options_;
  std::vector<Anchor> anchors_;               // later positions of a text come first
  std::vector<std::vector<int32_t>> rounds_;  // anchors of different texts
  int32_t longest_context_ = 0, vocab_ = 0;
  Buffer taps_;                               // [max_rows, taps, hidden] of one inject
  std::vector<float> scores_;                 // [kHeadRows, vocab]
};

}  // namespace slipstream
