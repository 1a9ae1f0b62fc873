// Which attention kernel runs: support, scratch, the split plan and the dispatch. Knows no kernel's inside.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/attention_kernels.h"

namespace slipstream::cuda {
namespace attn {
namespace {

// Longer splits would leave the end of a launch to few CTAs when sequences differ in length.
constexpr int32_t kMaxSplitTokens = 2048;
// What a CTA costs beyond its tokens (start, first loads), and a merge, in tokens of one CTA's streaming rate.
constexpr int64_t kCtaTokens = 96, kMergeTokens = 64, kMergeSplitTokens = 4;
// A split's write and read of a packed row's accumulator in FP32, against K and V of a token in BF16: two tokens.
constexpr int64_t kRowTokens = 2;

int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }

}  // namespace

SpanRange decode_range(const StepView& step) {
  return {0, step.decode_spans, step.max_decode_rows, step.max_context};
}

SpanRange prefill_range(const StepView& step) {
  return {step.decode_spans, step.spans - step.decode_spans, step.max_prefill_rows, step.max_prefill_context};
}

SplitPlan plan_splits(const SplitQuestion& q) {
  if (q.fixed_tokens > 0) {
    const SplitPlan plan{ceil_div(q.tokens, q.fixed_tokens), q.fixed_tokens};
    CHECK(q.fixed_tokens % q.tile == 0, "attention: split_tokens is no multiple of " + std::to_string(q.tile));
    CHECK(plan.splits <= q.max_splits, "attention: scratch holds " + std::to_string(q.max_splits) + " splits, " +
                                           std::to_string(plan.splits) + " are fixed");
    return plan;
  }
  const int32_t tiles = std::max(1, ceil_div(q.tokens, q.tile));
  SplitPlan best{1, tiles * q.tile};
  if (q.ctas >= 8 * q.slots) return best;  // the GPU is full many times over
  int64_t best_cost = std::numeric_limits<int64_t>::max();
  const int32_t most = static_cast<int32_t>(std::min<int64_t>({q.max_splits, tiles, 512}));
  for (int32_t splits = 1; splits <= most; ++splits) {
    const int32_t split_tiles = ceil_div(tiles, splits);
    if (ceil_div(tiles, split_tiles) != splits) continue;
    const int64_t waves = (int64_t{q.ctas} * splits + q.slots - 1) / q.slots;
    int64_t cost = waves * (int64_t{split_tiles} * q.tile + kCtaTokens);
    if (splits > 1) cost += kMergeTokens + kMergeSplitTokens * splits + waves * kRowTokens * q.rows;
    const bool long_split = best.split_tokens > kMaxSplitTokens;
    if (cost < best_cost || (long_split && cost < best_cost + best_cost / 16)) {
      best_cost = cost;
      best = {splits, split_tiles * q.tile};
    }
  }
  return best;
}

bool tile_supports(const AttentionArgs& args, std::string* why) {
  std::string reason;
  const DType dtype = args.kv.dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF8E4M3)
    reason = "a cache of " + std::string(dtype_info(dtype).name) + " is none of BF16, F16, F8_E4M3";
  else if (args.head_dim != 64 && args.head_dim != 96 && args.head_dim != 128 && args.head_dim != 256)
    reason = "head_dim " + std::to_string(args.head_dim) + " is none of 64, 96, 128, 256";
  else if (args.kv.block_tokens % 16 != 0)
    reason = "blocks of " + std::to_string(args.kv.block_tokens) + " tokens are no multiple of 16";
  if (why != nullptr) *why = reason;
  return reason.empty();
}

}  // namespace attn

bool attention_supports(const AttentionArgs& args, int32_t arch, std::string* why) {
  if (!attn::simple_supports(args, why)) return false;
  if (arch < 80) {
    if (why != nullptr) *why = "compute capability " + std::to_string(arch) + " is below 80";
    return false;
  }
  attn::tile_supports(args, why);
  return true;
}

size_t attention_scratch_bytes(int32_t max_rows, int32_t max_spans, int32_t heads, int32_t head_dim,
                               int32_t multiprocessors) {
  const int64_t row_bytes = (int64_t{head_dim} + 2) * static_cast<int64_t>(sizeof(float));
  const int64_t rows = std::min<int64_t>(max_rows, int64_t{16} * max_spans);
  // Splits beyond a few per multiprocessor do not help; 64 packed rows is a verify step's usual tile.
  const int64_t useful = int64_t{4} * multiprocessors * 64 * row_bytes;
  return kAttentionCounterBytes + static_cast<size_t>(std::min(std::max(useful, 2 * rows * heads * row_bytes),
                                                               256 * rows * heads * row_bytes));
}

void attention(Context& context, const AttentionArgs& args) {
  if (!attn::tile_supports(args, nullptr)) return attn::launch_simple(context, args);
  CHECK(args.q_stride % 2 == 0, "attention: q rows are not 8-byte aligned");
  const attn::SpanRange decode = attn::decode_range(args.step), prefill = attn::prefill_range(args.step);
  if (args.split_tokens > 0) {
    attn::launch_exact(context, args, decode);
    attn::launch_exact(context, args, prefill);
    return;
  }
  const bool sm90 = attn::prefill_sm90_supports(args, context.arch(), nullptr);
  // From 64 packed rows on, mma.sync is what limits a verify step; Hopper's products keep up with the memory.
  if (sm90 && decode.max_rows * (args.heads / args.kv_heads) > 64)
    attn::launch_prefill_sm90(context, args, decode);
  else
    attn::launch_decode(context, args, decode);
  if (sm90)
    attn::launch_prefill_sm90(context, args, prefill);
  else
    attn::launch_prefill(context, args, prefill);
}

std::vector<KernelChoice> attention_report(const AttentionArgs& args, int32_t arch) {
  std::string why;
  if (!attention_supports(args, arch, &why)) return {{"attention", "none", why}};
  const std::string shape = " d" + std::to_string(args.head_dim);
  if (!why.empty()) return {{"attention" + shape, args.split_tokens > 0 ? "simple fp32, row-exact" : "simple fp32", why}};
  const std::string elements = args.kv.dtype == DType::kBF16  ? "bf16"
                               : args.kv.dtype == DType::kF16 ? "f16"
                               : arch >= 89                   ? "f16, codes widened by cvt"
                                                              : "f16, codes widened in integers";
  if (args.split_tokens > 0)
    return {{"attention" + shape, "mma.sync " + elements + ", row-exact: splits of " + std::to_string(args.split_tokens) + " tokens from position 0",
             "deterministic: one order of sums for decode, verify and prefill"}};
  const bool sm90 = attn::prefill_sm90_supports(args, arch, &why);
  KernelChoice prefill = {"attention prefill" + shape, "mma.sync " + elements, why};
  if (sm90) prefill = {"attention prefill" + shape, "wgmma " + elements + ", tensor maps", "", "90a"};
  return {{"attention decode" + shape, "mma.sync " + elements + ", split over the cache", ""}, prefill};
}

}  // namespace slipstream::cuda
