// Text that a target writes by itself, and the hidden states behind it: what a drafter is measured on. Drives Model by hand
// over a cache that nobody else uses meanwhile. Knows no drafter, no scheduler and no tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/model.h"

namespace slipstream {

/// Blocks of a few sequences, handed out in order from block 0; every cache group uses the same ids.
class ScratchTables {
 public:
  ScratchTables(int32_t sequences, int32_t tokens, int32_t block_tokens, int32_t groups);
  const int32_t* const* of(int32_t sequence) const { return columns_[static_cast<size_t>(sequence)].data(); }
  /// Of each sequence.
  int32_t blocks() const { return blocks_; }
  int32_t groups() const { return groups_; }
  /// Positions of each sequence.
  int32_t tokens() const { return tokens_; }

 private:
  int32_t blocks_, groups_, tokens_;
  std::vector<std::vector<int32_t>> tables_;          // [sequences][blocks]
  std::vector<std::vector<const int32_t*>> columns_;  // [sequences][groups]
};

struct TextOptions {
  std::span<const int32_t> layers;    // whose outputs are kept
  std::vector<int32_t> stop_ids;      // a text ends before these
  int32_t tokens = 64;                // written to each prompt at most
  double seconds = 0;                 // stop writing after so long; 0: no bound
  int32_t max_rows = 64;              // of one step, at most what the model was loaded for, as logit rows too
  std::function<void(int32_t done, int32_t all)> progress;  // tokens of each text; may be empty
};

struct WrittenText {
  struct Sequence {
    std::vector<int32_t> ids;
    int32_t written = 0;  // ids before it are the prompt
    Buffer taps;          // [ids - 1, layers, hidden]: of every position but the newest token's, which was never processed
  };
  std::vector<int32_t> layers;
  int32_t hidden = 0;
  std::vector<Sequence> sequences;
  /// Tokens that the target wrote.
  int32_t tokens() const;
};

/// Greedy continuations of `prompts`, at most as many as `tables` has sequences for; a text ends when its last eight tokens
/// stand in it already, since a loop flatters every drafter. Prompts are not empty and leave room in the tables.
WrittenText write_text(Model& model, Ops& ops, const KvViews& kv, const ScratchTables& tables,
                       std::span<const std::vector<int32_t>> prompts, const TextOptions& options);

}  // namespace slipstream
