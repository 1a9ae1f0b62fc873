// Attention whose bits depend on a row's position alone (fixed splits, AttentionArgs::split_tokens): decode, verify and
// prefill rows in one order of sums. Each warp owns its rows, so no warps divide tokens; a split starts from scratch and
// splits join left to right (RunningSplits).
//
// Grid [kv_heads, chunks, spans] where a CTA goes through the splits itself: 128 threads, <= 96 KB of shared memory, 64
// packed rows. Bytes beside those of decode: an accumulator's write and read per row, head and split.
#include "kernels/cuda/attention_launch.cuh"

namespace slipstream::cuda::attn {
namespace {

template <DType T, int D, int kTile, int kStages>
void launch_shape(Context& context, const AttentionArgs& args, const SpanRange& range) {
  using Serial = TileShape<T, D, 4, 1, 1, kTile, kStages, false, 2, true>;
  const int64_t packed = int64_t{range.max_rows} * (args.heads / args.kv_heads);
  const int64_t ctas = int64_t{range.spans} * args.kv_heads * ((packed + Serial::kRows - 1) / Serial::kRows);
  const int64_t splits = (int64_t{split_range_tokens(args, range, 16)} + args.split_tokens - 1) / args.split_tokens;
  if (splits == 1 || (ctas < tile_slots<Serial>(context) && splits <= scratch_splits(args, range, ctas)))
    return launch_decode(context, args, range);
  const TileLaunch launch = plan_tiles(args, range, {Serial::kRows, kTile, tile_slots<Serial>(context), 16, false, true});
  cuda::launch(context, "attention exact", tile_kernel<Serial>, launch.grid, dim3(Serial::kThreads), Serial::kSharedBytes, launch.params);
}

template <DType T>
void launch_for_head(Context& context, const AttentionArgs& args, const SpanRange& range) {
  if (args.head_dim == 64)
    launch_shape<T, 64, 64, 4>(context, args, range);
  else if (args.head_dim == 96)
    launch_shape<T, 96, 64, 3>(context, args, range);
  else if (args.head_dim == 128)
    launch_shape<T, 128, 64, 3>(context, args, range);
  else
    launch_shape<T, 256, 32, 3>(context, args, range);
}

}  // namespace

void launch_exact(Context& context, const AttentionArgs& args, const SpanRange& range) {
  if (range.spans == 0 || range.max_rows == 0 || range.max_context == 0) return;
  for_cache_dtype(args.kv.dtype, [&]<DType T>() { launch_for_head<T>(context, args, range); });
}

}  // namespace slipstream::cuda::attn
