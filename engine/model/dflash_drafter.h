// The DFlash drafter (v1): a small stack that never sees a token of the past. Its context is K and V of a projection of the
// target's hidden states; one forward over a block [anchor, mask, mask, …] drafts all slots at once. Owns the weights of the
// stack and the block's buffers; borrows the target's embedding and head. Knows no sequence, no policy and no verification.
//
// Formulas: arXiv 2602.06036. Of a committed position p with tapped residuals s_p:
//   c = RMSNorm(W_fc s_p);  per layer K[p] = RoPE_p(headRMS(W_k c)), V[p] = W_v c
// and of a block at context length L: rows at positions L..L+B-1, each layer a pre-norm Qwen3 layer whose queries see K and V
// of the context and of the block's own rows. The rows' own K and V go to the cache behind the context, where the next block
// or the next inject of those positions overwrites them.
//
// One per rank; its worker thread only. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/dense_decoder.h"
#include "engine/model/drafter_config.h"
#include "engine/model/model.h"
#include "engine/model/weight_loader.h"
#include "engine/weights/checkpoint.h"
#include "kernels/ops.h"

namespace slipstream {

/// One layer of the stack on one rank: a decoder's, and K | V once more for the context.
struct DrafterLayer {
  DecoderLayer block;
  /// [2 G D, hidden]: k | v of block.qkv again, so that the context computes no q and the block's rows read one matrix.
  std::unique_ptr<Weight> context_kv;
};

struct DrafterWeights {
  DummySource source;  // dummy weights that the others may read; outlive them
  std::unique_ptr<Weight> fusion;  // [hidden, taps * target_hidden]
  Buffer fusion_norm;              // [hidden]
  std::vector<DrafterLayer> layers;
  Buffer output_norm;              // [hidden]
};

struct DrafterOptions {
  /// max_rows: rows of the largest inject; dummy, rank, ranks, progress and notes as for a model.
  LoadOptions load;
  int32_t max_blocks = 1;          // sequences of the largest draft
  /// Where the drafter's layers begin in the cache: the number of the target's layers when both share one.
  int32_t first_cache_layer = 0;
  const Checkpoint* target_checkpoint = nullptr;  // to compare copies of its embedding and head with; may be null
};

/// One sequence's next block. `context` positions have been injected, [0, context); the anchor is the token at position
/// `context`, which the target has not processed.
struct DraftBlock {
  int32_t anchor = 0;
  int32_t context = 0;
  int32_t rows = 0;    // 1 to block_rows; fewer than it was trained with change every draft
  int32_t drafts = 0;  // wanted, at most config.drafts(rows): the head runs on these slots alone
  const int32_t* const* block_tables = nullptr;  // as in SpanRows; they hold context + rows positions
  int32_t blocks = 0;
};

class DflashDrafter {
 public:
  /// `target` outlives the drafter; the weights are those of `ops`.
  DflashDrafter(DrafterConfig config, DrafterWeights weights, const RankShare& share, const ModelEnds& target, Ops& ops,
                const DrafterOptions& options);

  const DrafterConfig& config() const { return config_; }
  /// Other conventions over the same weights, for calibration: taps (as many), mask, slots, RoPE, attention, scales, and a
  /// block of at most the rows it was made with. Shapes stay. What was injected before is void.
  void assume(DrafterConfig config);
  /// Full layers first, then sliding ones; the layers of a group in the order of the stack.
  std::vector<CacheGroupSpec> cache_groups() const;
  /// Where the K and V of a layer of the stack are in the cache.
  int32_t cache_layer(int32_t layer) const { return cache_layers_[static_cast<size_t>(layer)]; }

  /// Appends context: K and V of each row's position in every layer. `rows` are committed rows of any sequences, whose
  /// token ids are not read; positions and spans say where they go. Each row stands alone, so that chunks give the bits of
  /// the whole. At least one row, at most options.load.max_rows.
  /// taps [rows.rows, taps, target_hidden]: as Taps of config().taps leaves them
  void inject(const StepInputs& rows, const float* taps, const KvViews& kv);

  /// drafts[i]: the tokens of blocks[i], in order; at most blocks[i].drafts, fewer where a slot is not finite. Drafts are
  /// the argmax of the target's head, ties to the lower id. At most options.max_blocks blocks.
  void draft(std::span<const DraftBlock> blocks, const KvViews& kv, std::span<std::vector<int32_t>> drafts);

  /// Of the last draft, for tests and calibration: the stack's output of every row before the final norm, [rows, hidden],
  /// and the head's output of the drafted slots, [slots, vocab]; the latter of at most kHeadRows slots, the last ones.
  const float* block_hidden() const { return residual_.as<float>(); }
  const float* slot_scores() const { return scores_.as<float>(); }
  static constexpr int32_t kHeadRows = 64;
  /// Of the target's head: columns of slot_scores.
  int32_t vocab() const { return vocab_; }
  /// The published logit of a score: multiplier and softcap. Both keep the order, so drafting has no need of them.
  float logit(float score) const;

  /// Weights kept in memory, for the load report.
  int64_t resident_bytes() const;

 private:
  /// What follows from the conventions: frequencies, scales, where each layer is in the cache.
  void apply_conventions();
  void place(std::span<const DraftBlock> blocks, const KvViews& kv);
  QkvParams qkv_params(const DrafterLayer& layer, int32_t index, const StepInputs& step, int32_t heads, const KvViews& kv);
  void run_layer(int32_t index, const KvViews& kv);
  bool is_two_sided(const DrafterAttention& sees) const;
  void score(std::span<const DraftBlock> blocks, std::span<std::vector<int32_t>> drafts);

  DrafterConfig config_;
  Ops& ops_;
  const ModelEnds target_;
  float embedding_scale_ = 1, logit_softcap_ = 0;
  const int32_t first_cache_layer_, most_block_rows_;
  const int32_t max_rows_, max_blocks_, max_block_rows_;
  const int32_t heads_, kv_heads_;  // on this rank
  const int64_t qkv_cols_;
  const int32_t vocab_;
  bool two_sided_ = false;             // whether some layer needs near_rows_
  std::vector<int32_t> cache_layers_;  // [layers]
  DrafterWeights weights_;
  Buffer inv_freq_;  // [rope_dim / 2]

  // Of inject.
  Buffer fused_;         // [max rows, hidden]
  Buffer context_kv_;    // [max rows, 2 G D]
  Activation features_;  // [rows, taps * target_hidden]
  Activation context_;   // [rows, hidden]

  // Of draft; R = max_blocks * block_rows.
  Buffer residual_;       // [R, hidden]
  Buffer qkv_;            // [R, (H + 2 G) D]
  Buffer gate_up_;        // [R, 2 F]
  Buffer near_rows_;      // [R] bits: rows of its own block within the window, where a window is narrower than a block
  Buffer slots_;          // [kHeadRows, hidden]
  Buffer scores_;         // [kHeadRows, vocab]
  Activation hidden_;     // [R, hidden]
  Activation attention_;  // [R, H D]
  Activation ffn_;        // [R, F]
  Activation head_in_;    // [kHeadRows, hidden]
  std::vector<int32_t> token_ids_, positions_, slot_rows_;  // [R]; slot_rows_: rows that are drafted from
  std::vector<uint32_t> near_bits_;                         // [R]
  std::vector<SpanRows> spans_;                             // [blocks]
  std::vector<SampleRow> laws_;                             // [kHeadRows]: argmax
  std::vector<SampledToken> drawn_;                         // [kHeadRows]
  StepInputs step_;
};

/// Checks family, pairing and every tensor (missing and left-over ones are errors that name them), prepares the weights on
/// `ops` and builds the drafter. Before Ops::warm_up, whose rows cover options.load.max_rows and the rows of the largest draft.
Result<std::unique_ptr<DflashDrafter>> load_dflash_drafter(Checkpoint& checkpoint, const DrafterConfig& config,
                                                           const Model& target, Ops& ops, const DrafterOptions& options);

}  // namespace slipstream
