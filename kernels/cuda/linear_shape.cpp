// See linear_shape.h.
#include "kernels/cuda/linear_shape.h"

#include <algorithm>

#include "kernels/cuda/linear_limits.h"

namespace slipstream::cuda {
namespace {

bool is_block(DType dtype) { return dtype_info(dtype).block_elements > 1; }
int64_t row_blocks(const TileShape& s, int64_t rows) { return (rows + 16 * s.wr - 1) / (16 * s.wr); }
int64_t column_blocks(const TileShape& s, int32_t m) { return (m + 8 * s.nt - 1) / (8 * s.nt); }
int64_t k_stages(DType dtype, int64_t cols) { return needs_slice(dtype) ? (cols + 255) / 256 : (cols + 127) / 128; }

size_t shared_bytes(DType dtype, const TileShape& s, int32_t m) {
  if (dtype == DType::kF8E4M3) return f8_shared_bytes(s, m);
  return is_block(dtype) ? quant_shared_bytes(dtype, s, m) : float_shared_bytes(s, m);
}

constexpr size_t kStaticBytes = 512;  // of shared memory that a kernel has beside the dynamic, at most

/// Blocks of the shape that an SM can hold by shared memory, at most 2 (the kernels' registers).
int32_t resident_blocks(const Context& context, DType dtype, const TileShape& s, int32_t m) {
  const size_t bytes = shared_bytes(dtype, s, m);
  const size_t limit = context.shared_bytes_per_block();
  if (bytes == 0 || bytes + kStaticBytes > limit) return 0;
  return 2 * (bytes + 1024) <= limit ? 2 : 1;  // a block costs 1 KB beside its own
}

bool splits_fit(DType dtype, const TileShape& s, int32_t m, int64_t rows, int64_t cols) {
  return s.splits == 1 || (s.splits * s.wk <= k_stages(dtype, cols) && s.splits * m * rows <= kPartialFloats &&
                           row_blocks(s, rows) * column_blocks(s, m) <= kCounters);
}

}  // namespace

TileShape exact_shape(const Context& context, DType dtype, int32_t m) {
  const auto fit = [&](TileShape s) {
    while (s.stages > 2 && resident_blocks(context, dtype, s, m) < 2) --s.stages;
    return s;
  };
  const TileShape few = fit({1, 1, kExactGroups, 4});
  if (m <= 8 && resident_blocks(context, dtype, few, m) > 0) return few;
  if ((dtype == DType::kBF16 || dtype == DType::kF16) && m <= 64) {
    TileShape s{m <= 16 ? 2 : 4, 1, kExactGroups, 3};  // one block fills a multiprocessor; 33 and more rows read the weight twice
    if (resident_blocks(context, dtype, s, m) == 0) s.stages = 2;
    if (resident_blocks(context, dtype, s, m) > 0) return s;
  }
  TileShape s{m <= 16 ? 2 : m <= 32 ? 4 : 8, 8, 1, 4};
  s.serial = true;
  s = fit(s);
  while (resident_blocks(context, dtype, s, m) == 0 && s.nt > 2) s.nt /= 2;  // SM86, SM89, SM120: passes of 32 or 16 rows
  return s;
}

TileShape choose_shape(const Context& context, DType dtype, int32_t m, int64_t rows, int64_t cols) {
  if (context.deterministic()) return exact_shape(context, dtype, m);
  const int32_t sms = context.facts().multiprocessors;
  TileShape s;
  if (m <= 8) s = is_block(dtype) && m > 2 ? TileShape{1, 2, 4, 4} : TileShape{1, 1, 8, 4};
  else if (m <= 16) s = {2, 4, 2, 4};
  else if (m <= 32 || is_block(dtype)) s = {4, 8, 1, 4};
  else s = {8, 8, 1, 4};
  // Two blocks a multiprocessor hide each other's start and end: the deepest ring that leaves room for both.
  while (s.stages > 2 && resident_blocks(context, dtype, s, m) < 2) --s.stages;
  if (resident_blocks(context, dtype, s, m) == 0) s = {4, 8, 1, 2};  // SM86, SM89, SM120: passes of 32 rows
  const int64_t wanted = int64_t{2} * sms;
  const int64_t blocks = row_blocks(s, rows) * column_blocks(s, m);
  TileShape split = s;
  for (split.splits = 2; split.splits <= kMaxSplits && blocks * split.splits <= wanted; split.splits *= 2)
    if (splits_fit(dtype, split, m, rows, cols)) s = split;
  return s;
}

std::vector<TileShape> candidate_shapes(const Context& context, DType dtype, int32_t m, int64_t rows, int64_t cols) {
  const int32_t sms = context.facts().multiprocessors;
  std::vector<TileShape> candidates = {choose_shape(context, dtype, m, rows, cols)};
  const auto add = [&](const TileShape& s) {
    const int64_t blocks = row_blocks(s, rows);
    if (resident_blocks(context, dtype, s, m) == 0 || !splits_fit(dtype, s, m, rows, cols)) return;
    if (s.blocks != 0 && (s.blocks >= blocks || s.splits > 1)) return;
    if (s.splits > 1 && blocks * s.splits > 4 * sms) return;
    candidates.push_back(s);
  };
  const int32_t widest = m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8;
#define SLIPSTREAM_ADD(NT, WR, WK)                                                                 \
  if (NT == widest || (NT == 4 && widest == 8))                                                    \
    for (const int32_t stages : {2, 3, 4}) {                                                       \
      for (const int32_t splits : {1, 2, 4, 8}) add({NT, WR, WK, stages, splits});                 \
      for (const int32_t per_sm : {1, 2}) add({NT, WR, WK, stages, 1, per_sm * sms});              \
    }
  SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_ADD)
#undef SLIPSTREAM_ADD
  if (dtype != DType::kF8E4M3 || context.arch() != 90 || m <= 8) return candidates;
#define SLIPSTREAM_ADD(NT, WR)                                                                     \
  if (NT == widest)                                                                                \
    for (const int32_t stages : {2, 3, 4}) {                                                       \
      for (const int32_t splits : {1, 2, 4, 8}) add({NT, WR, 1, stages, splits, 0, false, true});  \
      for (const int32_t per_sm : {1, 2}) add({NT, WR, 1, stages, 1, per_sm * sms, false, true});  \
    }
  SLIPSTREAM_F8_WGMMA_SHAPES(SLIPSTREAM_ADD)
#undef SLIPSTREAM_ADD
  return candidates;
}

}  // namespace slipstream::cuda
