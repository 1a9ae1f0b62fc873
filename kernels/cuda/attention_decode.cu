// Decode and verify: 1 to 16 rows per sequence against a long cache; bound by reading K and V once.
//
// Grid [kv_heads, chunks * splits, spans]; 64 to 256 threads, <= 96 KB of shared memory (two CTAs per multiprocessor on
// SM80 and SM90, one on SM86, 89, 120). Bytes: tokens * kv_heads * head_dim * 4 per sequence, plus head_dim * 8 per row,
// head and split. Up to 16 packed rows each warp streams its own tokens and no barrier is met in the loop; above, the warps
// share a stage and divide the rows.
//
// Measured on one H200 (read ceiling 4.5 TB/s), BF16, caches cold: 32 sequences of 8k with 32/8 heads of 128: 249 us, 95 % of
// the ceiling (4 rows 91 %, 8 rows 86 %, 16 rows 79 %); 64 of 1k: 69 us, 86 %; one of 128k: 130 us, 91 %. One of 8k takes
// 15 us and one of 1k 7.3 us (SmolLM2's 9/3 heads of 64: 5.7 us), where the chain of launch, table, cache, merge is the time.
// An E4M3 cache, same shapes: 143 us, 83 % of the ceiling over half the bytes (4 rows 79 %, 8 rows 58 %, 16 rows 42 %, where
// each 16 packed rows widen the codes anew); 64 of 1k: 42 us; one of 128k: 78 us; one of 1k: 7.7 us. Widening all or half of
// the codes in integers was slower: 63 and 74 %.
#include "kernels/cuda/attention_launch.cuh"

namespace slipstream::cuda::attn {
namespace {

/// The shape for `packed` = rows * group packed rows at most. Where bits may not depend on the rows beside them, warps that
/// divide the tokens are out, since they sum in another order than those of the larger shapes and of prefill.
template <DType T, int D>
void launch_for_rows(Context& context, const AttentionArgs& args, const SpanRange& range) {
  constexpr int kTile = D == 256 ? 32 : 64, kStages = D == 64 ? 4 : 3, kWarpsN = D == 256 ? 2 : 4;
  // A tile of codes has twice the tokens for the same bytes. The shapes beyond the first keep the order of sums of prefill.
  constexpr int kDense = CacheElement<T>::kBytes == 1 ? 2 : 1;
  constexpr const char* kName = "attention decode";
  int32_t packed = range.max_rows * (args.heads / args.kv_heads);
  if (args.split_tokens > 0 && packed <= 64) packed = 64;
  if (packed <= 16)
    launch_tile<TileShape<T, D, 1, D == 256 ? kWarpsN * kDense : kWarpsN, 1, kTile * kDense, kStages, false, 2>>(context, args, range,
                                                                                                                kName);
  else if (packed <= 32)
    launch_tile<TileShape<T, D, 2, 2, 1, kTile, kStages, false, 2>>(context, args, range, kName);
  else if (packed <= 64)
    launch_tile<TileShape<T, D, 4, 1, 1, kTile, kStages, false, 2>>(context, args, range, kName);
  else
    launch_tile<TileShape<T, D, 8, 1, 1, kTile, kStages, false, 1>>(context, args, range, kName);
}

template <DType T>
void launch_for_head(Context& context, const AttentionArgs& args, const SpanRange& range) {
  if (args.head_dim == 64)
    launch_for_rows<T, 64>(context, args, range);
  else if (args.head_dim == 96)
    launch_for_rows<T, 96>(context, args, range);
  else if (args.head_dim == 128)
    launch_for_rows<T, 128>(context, args, range);
  else
    launch_for_rows<T, 256>(context, args, range);
}

}  // namespace

void launch_decode(Context& context, const AttentionArgs& args, const SpanRange& range) {
  for_cache_dtype(args.kv.dtype, [&]<DType T>() { launch_for_head<T>(context, args, range); });
}

}  // namespace slipstream::cuda::attn
