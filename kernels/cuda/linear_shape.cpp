#include "kernels/cuda/linear_shape.h"

#include <algorithm>

#include "kernels/cuda/linear_limits.h"

namespace slipstream::cuda {
namespace {

/// Splits of K that give every multiprocessor about `blocks_wanted` blocks, as long as each warp keeps a stage.
int32_t choose_splits(const Context& context, const TileShape& s, int32_t m, int64_t row_tiles, int64_t k_stages) {
  const int64_t blocks = (row_tiles + s.wr - 1) / s.wr * ((m + 8 * s.nt - 1) / (8 * s.nt));
  const int64_t wanted = int64_t{2} * context.facts().multiprocessors;
  if (blocks * 2 > wanted) return 1;
  const int64_t by_stages = std::max<int64_t>(1, k_stages / (2 * s.wk));
  const int64_t by_memory = std::max<int64_t>(1, kPartialFloats / (int64_t{m} * row_tiles * 16));
  return static_cast<int32_t>(std::min({wanted / blocks, by_stages, by_memory, int64_t{8}}));
}

template <class SharedBytes>
TileShape choose(const Context& context, int32_t m, int64_t row_tiles, int64_t k_stages, SharedBytes&& shared_bytes) {
  // Two blocks a multiprocessor hide each other's start and end; the deepest ring that leaves room for both wins.
  TileShape s;
  if (m <= 2) s = {1, 1, 8, 4, 1};
  else if (m <= 8) s = {1, 2, 4, 4, 1};
  else if (m <= 16) s = {2, 4, 2, 4, 1};
  else if (m <= 32) s = {4, 8, 1, 4, 1};
  else s = {8, 8, 1, 4, 1};
  const size_t limit = context.shared_bytes_per_block();
  const size_t half = limit > 128 * 1024 ? limit / 2 - 1024 : limit;
  while (s.stages > 2 && shared_bytes(s) > half) --s.stages;
  if (shared_bytes(s) > limit) s = {4, 8, 1, 2, 1};  // SM86, SM89, SM120: two passes of 32 rows
  s.splits = choose_splits(context, s, m, row_tiles, k_stages);
  return s;
}

}  // namespace

TileShape choose_quant_shape(const Context& context, DType dtype, int32_t m, int64_t row_tiles, int64_t k_stages) {
  return choose(context, m, row_tiles, k_stages, [&](const TileShape& s) { return quant_shared_bytes(dtype, s, m); });
}

TileShape choose_float_shape(const Context& context, int32_t m, int64_t row_tiles, int64_t k_stages) {
  return choose(context, m, row_tiles, k_stages, [&](const TileShape& s) { return float_shared_bytes(s, m); });
}

}  // namespace slipstream::cuda
