// The kernels behind attention(): one `supports` and one launch each, and the plan that splits a cache over the GPU. For
// the dispatcher, tests and the bench; nobody else includes it.
#pragma once

#include "kernels/cuda/attention.h"

namespace slipstream::cuda::attn {

/// Consecutive spans of a step with their host bounds.
struct SpanRange {
  int32_t first = 0;
  int32_t spans = 0;
  int32_t max_rows = 0;     // of one span
  int32_t max_context = 0;  // rows included
};
SpanRange decode_range(const StepView& step);
SpanRange prefill_range(const StepView& step);

/// Scalar loops in FP32: any head_dim up to 256, any cache dtype, every span of the step. The readable twin.
bool simple_supports(const AttentionArgs& args, std::string* why);
void launch_simple(Context& context, const AttentionArgs& args);

/// mma.sync kernels: BF16, F16 or E4M3 cache, head dims 64, 96, 128, 256, blocks of a multiple of 16 tokens.
bool tile_supports(const AttentionArgs& args, std::string* why);
void launch_decode(Context& context, const AttentionArgs& args, const SpanRange& range);
void launch_prefill(Context& context, const AttentionArgs& args, const SpanRange& range);

/// Fixed splits (args.split_tokens > 0) for any number of rows: side by side while they fill the GPU and fit the scratch,
/// otherwise one after the other in one CTA. Both give the same bits.
void launch_exact(Context& context, const AttentionArgs& args, const SpanRange& range);

/// wgmma and tensor maps on compute capability 90; otherwise like launch_prefill.
bool prefill_sm90_supports(const AttentionArgs& args, int32_t arch, std::string* why);
void launch_prefill_sm90(Context& context, const AttentionArgs& args, const SpanRange& range);

/// Partial results of a split launch: [rows, splits] of (accumulator [head_dim], max, sum), rows = spans * max_rows * heads.
struct SplitPlan {
  int32_t splits = 1;        // launch bound
  int32_t split_tokens = 0;  // a multiple of `tile`
};
struct SplitQuestion {
  int32_t ctas = 0;          // without splitting
  int32_t slots = 0;         // CTAs that run at once
  int32_t rows = 1;          // packed rows of a CTA: what each split writes and the merge reads
  int32_t tokens = 0;        // longest visible range, with room for alignment
  int32_t tile = 64;
  int64_t max_splits = 1;    // what the scratch holds
  int32_t fixed_tokens = 0;  // AttentionArgs::split_tokens
};
SplitPlan plan_splits(const SplitQuestion& question);

}  // namespace slipstream::cuda::attn
