// The host side of the tile kernel: parameters, split plan and launch of one shape. Included by the files that instantiate
// shapes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/check.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_tile.cuh"

namespace slipstream::cuda::attn {

/// CTAs of the kernel that the GPU runs at once; also raises the kernel's shared memory limit. Asked once per device.
template <class S>
int32_t tile_slots(const Context& context) {
  constexpr size_t kDevices = 64;
  static std::array<std::atomic<int32_t>, kDevices> known{};
  const auto device = static_cast<size_t>(context.facts().ordinal);
  CHECK(device < kDevices, "device ordinal " + std::to_string(device) + " is above 63");
  int32_t slots = known[device].load(std::memory_order_relaxed);
  if (slots != 0) return slots;
  check(cudaFuncSetAttribute(tile_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
        "raise the attention kernel's shared memory");
  int per_multiprocessor = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, tile_kernel<S>, S::kThreads, S::kSharedBytes),
        "ask for the attention kernel's occupancy");
  slots = std::max(1, per_multiprocessor) * std::max(1, context.facts().multiprocessors);
  known[device].store(slots, std::memory_order_relaxed);
  return slots;
}

/// launch<T>() for the dtype of the cache: one of the three that the tensor core kernels support.
template <class Launch>
void for_cache_dtype(DType dtype, Launch&& launch) {
  if (dtype == DType::kF8E4M3)
    launch.template operator()<DType::kF8E4M3>();
  else if (dtype == DType::kF16)
    launch.template operator()<DType::kF16>();
  else
    launch.template operator()<DType::kBF16>();
}

struct TileLaunch {
  TileParams params;
  dim3 grid;
  int32_t splits;
};

/// Parameters and grid of a kernel whose CTAs own `rows` packed rows and whose splits are multiples of `tile` tokens; `align`
/// is what the first split's start is rounded down to.
struct TileQuestion {
  int32_t rows, tile, slots, align;
  bool merges;  // the kernel can merge at its end
  bool serial = false;  // the kernel goes through the fixed splits itself
};
/// Tokens that the splits of a span divide, with room for the alignment of the first.
inline int32_t split_range_tokens(const AttentionArgs& args, const SpanRange& range, int32_t align) {
  if (args.window <= 0) return range.max_context;
  return std::min(range.max_context, args.window + range.max_rows + std::max(align, args.split_tokens));
}
/// Splits of each row whose partial results the scratch holds.
inline int64_t scratch_splits(const AttentionArgs& args, const SpanRange& range, int64_t ctas) {
  if (args.scratch == nullptr || ctas * static_cast<int64_t>(sizeof(uint32_t)) > static_cast<int64_t>(kAttentionCounterBytes)) return 1;
  const int64_t split_bytes = int64_t{range.spans} * range.max_rows * args.heads * (args.head_dim + 2) * static_cast<int64_t>(sizeof(float));
  return std::max<int64_t>(1, (static_cast<int64_t>(args.scratch_bytes) - static_cast<int64_t>(kAttentionCounterBytes)) / split_bytes);
}
inline TileLaunch plan_tiles(const AttentionArgs& args, const SpanRange& range, const TileQuestion& asked) {
  const int32_t group = args.heads / args.kv_heads;
  const int32_t chunks = (range.max_rows * group + asked.rows - 1) / asked.rows;
  const int64_t ctas = int64_t{range.spans} * args.kv_heads * chunks;
  // partial rows per split; one after the other, each row of the step has one place
  const int64_t slots = asked.serial ? int64_t{args.step.rows} * args.heads : int64_t{range.spans} * range.max_rows * args.heads;
  SplitQuestion question;
  question.ctas = static_cast<int32_t>(std::min<int64_t>(ctas, std::numeric_limits<int32_t>::max()));
  question.slots = asked.slots;
  question.rows = std::min(range.max_rows * group, asked.rows);
  question.tokens = split_range_tokens(args, range, asked.align);
  question.tile = asked.tile;
  question.fixed_tokens = args.split_tokens;
  question.max_splits = scratch_splits(args, range, ctas);
  SplitPlan plan{1, args.split_tokens};
  if (!asked.serial) plan = plan_splits(question);

  TileParams p{};
  p.q = args.q;
  p.q_stride = args.q_stride;
  p.k = static_cast<const unsigned char*>(args.kv.k);
  p.v = static_cast<const unsigned char*>(args.kv.v);
  p.block_tables = args.step.block_tables + int64_t{args.kv.group} * args.step.max_spans * args.step.table_stride;
  p.span_first_row = args.step.span_first_row;
  p.span_rows = args.step.span_rows;
  p.span_context = args.step.span_context;
  p.ancestor_mask = args.ancestor_mask;
  p.out_bf16 = args.out_bf16;
  p.out_f32 = args.out_f32;
  p.arrived = reinterpret_cast<uint32_t*>(args.scratch);
  if (plan.splits > 1 || (asked.serial && question.tokens > args.split_tokens)) {
    const int64_t partial_bytes = slots * (args.head_dim + 2) * static_cast<int64_t>(sizeof(float)) * plan.splits;
    CHECK(args.scratch_bytes >= kAttentionCounterBytes + static_cast<size_t>(partial_bytes),
          "attention: the scratch holds no split of " + std::to_string(slots) + " rows and heads");
    p.partial = args.scratch + kAttentionCounterBytes / sizeof(float);
    p.stats = reinterpret_cast<float2*>(p.partial + slots * args.head_dim * plan.splits);
  }
  p.first_span = range.first;
  p.rows = args.step.rows;
  p.max_rows = range.max_rows;
  p.max_context = range.max_context;
  p.heads = args.heads;
  p.kv_heads = args.kv_heads;
  p.group = group;
  p.block_tokens = args.kv.block_tokens;
  const uint64_t sixteens = static_cast<uint64_t>(args.kv.block_tokens) / 16;
  p.block_magic = sixteens == 1 ? 0 : static_cast<uint32_t>(((uint64_t{1} << 32) + sixteens - 1) / sixteens);
  p.table_stride = args.step.table_stride;
  p.kv_blocks = args.kv_blocks;
  p.align = asked.align;
  p.splits = plan.splits;
  p.split_tokens = plan.split_tokens;
  p.chunks = chunks;
  p.chunk_rows = asked.rows;
  // One CTA merges a few rows sooner than another launch would.
  p.merge_here = asked.merges && question.rows <= kMergeHereRows;
  p.window = args.window;
  p.causal = args.causal;
  p.from_zero = args.split_tokens > 0;
  p.scale_log2 = args.scale * args.kv.k_scale * 1.44269504f;  // log2(e)
  p.v_scale = args.kv.v_scale;

  const int64_t chunk_splits = int64_t{chunks} * plan.splits;
  CHECK(chunk_splits <= 65535 && range.spans <= 65535, "attention: a step of " + std::to_string(range.spans) + " spans with " +
                                                           std::to_string(chunk_splits) + " chunks is beyond the grid");
  const dim3 grid(static_cast<unsigned>(args.kv_heads), static_cast<unsigned>(chunk_splits), static_cast<unsigned>(range.spans));
  return {p, grid, plan.splits};
}

/// The merge of a split launch that its own CTAs do not do.
template <int D>
void launch_merge(Context& context, const TileLaunch& launch, const SpanRange& range, const char* name) {
  if (launch.splits == 1 || launch.params.merge_here) return;
  const auto rows = static_cast<unsigned>(range.max_rows * launch.params.heads);
  const dim3 grid((rows + kMergeWarps - 1) / kMergeWarps, static_cast<unsigned>(range.spans));
  cuda::launch(context, name, merge_kernel<D>, grid, dim3(32 * kMergeWarps), 0, launch.params);
}

template <class S>
void launch_tile(Context& context, const AttentionArgs& args, const SpanRange& range, const char* name) {
  if (range.spans == 0 || range.max_rows == 0 || range.max_context == 0) return;
  const TileLaunch launch = plan_tiles(args, range, {S::kRows, S::kTile, tile_slots<S>(context), 16, true});
  cuda::launch(context, name, tile_kernel<S>, launch.grid, dim3(S::kThreads), S::kSharedBytes, launch.params);
  launch_merge<S::kHeadDim>(context, launch, range, name);
}

}  // namespace slipstream::cuda::attn
