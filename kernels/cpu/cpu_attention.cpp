// Rotary embedding, cache writes and paged attention of the CPU backend. Tiles of 32 tokens from position 0, merged
// left to right, however the work is split.
#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_scratch.h"

namespace slipstream {
namespace {

/// Where token `token` of a sequence lies in one layer's K or V: the first element of its row for `head`.
std::byte* cache_row(const KvLayer& kv, void* base, const SpanRows& span, int32_t head, int64_t token) {
  const int64_t block = span.block_tables[kv.group][token / kv.block_tokens];
  const int64_t row = (block * kv.kv_heads + head) * kv.block_tokens + token % kv.block_tokens;
  return static_cast<std::byte*>(base) + row * kv.head_dim * dtype_info(kv.dtype).block_bytes;
}

/// Tokens that one row sees: [low, high), without those of its own span that an ancestor mask hides.
struct Visible {
  int32_t low, high;
};
Visible visible(const AttentionParams& p, const SpanRows& span, int32_t row) {
  const int32_t position = span.context + row;
  const int32_t low = p.window > 0 ? std::max(0, position - p.window + 1) : 0;
  return {low, p.causal && p.ancestor_mask == nullptr ? position + 1 : span.context + span.rows};
}

/// body(low, high) for each run of tokens of the tile at `base` that the row sees, ascending and counted from base.
template <typename Body>
void for_runs(const AttentionParams& p, const SpanRows& span, int32_t row, int32_t base, const Body& body) {
  const Visible see = visible(p, span, row);
  const int32_t end = std::min(see.high - base, kAttentionTile);
  int32_t low = std::max(see.low - base, 0);
  if (p.ancestor_mask == nullptr) {
    if (low < end) body(low, end);
    return;
  }
  const uint32_t mask = p.ancestor_mask[span.first_row + row];
  const auto seen = [&](int32_t t) { return base + t < span.context || (mask >> (base + t - span.context) & 1u) != 0; };
  while (low < end) {
    int32_t high = low;
    while (high < end && seen(high)) ++high;
    if (low < high) body(low, high);
    low = high + 1;
  }
}

/// KV heads that one item covers: as many as make whole int8 blocks of output.
int32_t heads_together(const AttentionParams& p) {
  const int32_t group = p.heads / p.kv_heads;
  if (p.out->q == nullptr) return 1;
  for (int32_t c = 1; c < p.kv_heads; ++c)
    if (p.kv_heads % c == 0 && (c * group * p.head_dim) % 32 == 0) return c;
  return p.kv_heads;
}

ActivationRow output_slice(const Activation& out, int64_t row, int64_t first, int64_t) {
  ActivationRow r = activation_row(out, row);
  if (r.f32 != nullptr) r.f32 += first;
  if (r.q != nullptr) {
    r.q += first;
    r.scale += first / 32;
    r.sum += first / 32;
  }
  return r;
}

}  // namespace

void CpuOps::qkv_norm_rope_cache(const QkvParams& p) {
  const StepInputs& step = *p.step;
  const int64_t stride = (int64_t{p.heads} + 2 * p.kv_heads) * p.head_dim;
  CHECK(p.head_dim <= kMaxHeadDim && p.rope.dim <= p.head_dim, "head_dim is too large");
  const int32_t pairs = p.rope.dim / 2;
  for_rows(step.rows, stride * 4, [&](int64_t r, int32_t worker) {
    WorkerScratch& scratch = *scratch_[static_cast<size_t>(worker)];
    const auto after = std::upper_bound(step.spans.begin(), step.spans.end(), r,
                                        [](int64_t row, const SpanRows& s) { return row < s.first_row; });
    const SpanRows& span = *(after - 1);
    const int64_t position = int64_t{span.context} + (r - span.first_row);
    kernels_.element->rope_table(step.positions[r], p.rope.inv_freq, pairs, p.rope.attention_factor, scratch.cosine,
                                 scratch.sine);
    float* row = p.qkv + r * stride;
    for (int32_t h = 0; h < p.heads + p.kv_heads; ++h) {
      float* head = row + h * p.head_dim;
      const float* norm = h < p.heads ? p.q_norm : p.k_norm;
      if (norm != nullptr) {
        ActivationRow in_place;
        in_place.f32 = head;
        kernels_.element->rms_norm(head, p.head_dim, norm, p.norm_eps, in_place);
      }
      kernels_.element->rope(head, scratch.cosine, scratch.sine, pairs, p.rope.style);
    }
    for (int32_t h = 0; h < p.kv_heads; ++h) {
      const float* k = row + (p.heads + h) * p.head_dim;
      const float* v = k + p.kv_heads * p.head_dim;
      kernels_.element->round_to(k, p.head_dim, p.kv.dtype, p.kv.k_scale, cache_row(p.kv, p.kv.k, span, h, position));
      kernels_.element->round_to(v, p.head_dim, p.kv.dtype, p.kv.v_scale, cache_row(p.kv, p.kv.v, span, h, position));
    }
  });
}

void CpuOps::attend_item(const AttentionParams& p, const SpanRows& span, int32_t row0, int32_t rows, int32_t kv_head,
                         WorkerScratch& scratch) {
  const int32_t group = p.heads / p.kv_heads;
  const int32_t together = heads_together(p);
  const int32_t per_row = together * group;  // query vectors of one row
  const AttentionKernels& kernels = *kernels_.attention;
  const int32_t queries = rows * per_row;
  bool row_started[kMaxQueries] = {};
  for (int32_t i = 0; i < queries; ++i) scratch.state[i].acc = scratch.query_acc + i * p.head_dim;
  int32_t first = visible(p, span, row0).low;
  const int32_t end = visible(p, span, row0 + rows - 1).high;
  first -= first % kAttentionTile;
  for (int32_t base = first; base < end; base += kAttentionTile)
    for (int32_t c = 0; c < together; ++c) {
      const int32_t tokens = std::min(kAttentionTile, end - base);
      kernels.load_k(cache_row(p.kv, p.kv.k, span, kv_head + c, base), p.kv.dtype, tokens, p.head_dim, scratch.k_panel);
      kernels.load_v(cache_row(p.kv, p.kv.v, span, kv_head + c, base), p.kv.dtype, tokens, p.head_dim, scratch.v_panel);
      for (int32_t r = 0; r < rows; ++r) {
        const float* q = p.q + (span.first_row + row0 + r) * p.q_stride + int64_t{kv_head + c} * group * p.head_dim;
        // the heads of a group see the same tokens, so they start in the same tile
        AttentionState* mine = scratch.state + r * per_row + c * group;
        bool& started = row_started[r * together + c];
        for_runs(p, span, row0 + r, base, [&](int32_t low, int32_t high) {
          AttentionState next[kMaxQueries];
          for (int32_t g = 0; g < group; ++g)
            next[g] = {0, 0, started ? scratch.tile_acc + g * p.head_dim : mine[g].acc};
          kernels.tile(q, group, p.head_dim, p.scale * p.kv.k_scale, scratch.k_panel, scratch.v_panel, low, high, next);
          for (int32_t g = 0; g < group; ++g) {
            if (started)
              kernels.merge(&mine[g], next[g], p.head_dim);
            else
              mine[g] = next[g];
          }
          started = true;
        });
      }
    }
  for (int32_t r = 0; r < rows; ++r) {
    float* slice = scratch.query_acc + r * per_row * p.head_dim;
    for (int32_t i = r * per_row; i < (r + 1) * per_row; ++i) {
      AttentionState& total = scratch.state[i];
      if (row_started[i / group]) {
        total.sum /= p.kv.v_scale;
        kernels.finish(total, p.head_dim, total.acc);
      } else {  // a mask hides everything
        std::memset(total.acc, 0, static_cast<size_t>(p.head_dim) * sizeof(float));
      }
    }
    const int64_t width = int64_t{per_row} * p.head_dim;
    kernels_.element->store(slice, width,
                            output_slice(*p.out, span.first_row + row0 + r, int64_t{kv_head} * group * p.head_dim, width));
  }
}

void CpuOps::attend_split(const AttentionParams& p, const SpanRows& span, int32_t row, WorkerScratch& scratch) {
  const int32_t group = p.heads / p.kv_heads;
  const AttentionKernels& kernels = *kernels_.attention;
  const Visible see = visible(p, span, row);
  const int32_t first_tile = see.low / kAttentionTile;
  const int32_t tiles = (see.high + kAttentionTile - 1) / kAttentionTile;
  const int64_t record = p.head_dim + 2;  // max, sum, accumulator
  const int32_t wave = static_cast<int32_t>(kSplitFloats / (record * p.heads));
  CHECK(wave > 0, "too many heads for split attention");
  const auto at = [&](int32_t tile_in_wave, int32_t head) { return split_ + (int64_t{tile_in_wave} * p.heads + head) * record; };
  for (int32_t h = 0; h < p.heads; ++h) scratch.state[h].acc = scratch.query_acc + h * p.head_dim;
  for (int32_t begin = first_tile; begin < tiles; begin += wave) {
    const int32_t end = std::min(begin + wave, tiles);
    pool_.parallel_for_worker(int64_t{end - begin} * p.kv_heads, [&](int64_t item, int32_t worker) {
      WorkerScratch& mine = *scratch_[static_cast<size_t>(worker)];
      const int32_t tile = begin + static_cast<int32_t>(item / p.kv_heads);
      const int32_t kv_head = static_cast<int32_t>(item % p.kv_heads);
      const int32_t base = tile * kAttentionTile;
      const int32_t low = std::max(see.low - base, 0);
      const int32_t high = std::min(see.high - base, kAttentionTile);
      kernels.load_k(cache_row(p.kv, p.kv.k, span, kv_head, base), p.kv.dtype, high, p.head_dim, mine.k_panel);
      kernels.load_v(cache_row(p.kv, p.kv.v, span, kv_head, base), p.kv.dtype, high, p.head_dim, mine.v_panel);
      AttentionState state[kMaxQueries];
      for (int32_t g = 0; g < group; ++g) state[g] = {0, 0, at(tile - begin, kv_head * group + g) + 2};
      kernels.tile(p.q + (span.first_row + row) * p.q_stride + int64_t{kv_head} * group * p.head_dim, group, p.head_dim,
                   p.scale * p.kv.k_scale, mine.k_panel, mine.v_panel, low, high, state);
      for (int32_t g = 0; g < group; ++g) {
        float* out = at(tile - begin, kv_head * group + g);
        out[0] = state[g].max;
        out[1] = state[g].sum;
      }
    });
    for (int32_t h = 0; h < p.heads; ++h)
      for (int32_t tile = begin; tile < end; ++tile) {
        float* record_of = at(tile - begin, h);
        const AttentionState next{record_of[0], record_of[1], record_of + 2};
        AttentionState& total = scratch.state[h];
        if (tile > first_tile) {
          kernels.merge(&total, next, p.head_dim);
          continue;
        }
        total.max = next.max;
        total.sum = next.sum;
        std::memcpy(total.acc, next.acc, static_cast<size_t>(p.head_dim) * sizeof(float));
      }
  }
  for (int32_t h = 0; h < p.heads; ++h) {
    scratch.state[h].sum /= p.kv.v_scale;
    kernels.finish(scratch.state[h], p.head_dim, scratch.state[h].acc);
  }
  kernels_.element->store(scratch.query_acc, int64_t{p.heads} * p.head_dim, activation_row(*p.out, span.first_row + row));
}

void CpuOps::attention(const AttentionParams& p) {
  const StepInputs& step = *p.step;
  CHECK(p.head_dim <= kMaxHeadDim && p.heads % p.kv_heads == 0, "heads must be a multiple of kv_heads");
  CHECK(p.kv.block_tokens % kAttentionTile == 0, "cache blocks must hold whole attention tiles");
  CHECK(step.rows <= p.out->max_rows, "more rows than the activation holds");
  check_ancestor_mask(p);
  p.out->rows = step.rows;
  const int32_t together = heads_together(p);
  const int32_t per_row = together * (p.heads / p.kv_heads);
  const int32_t columns = p.kv_heads / together;
  const int32_t rows_each = std::max(1, std::min(kMaxQueries / per_row, kQueryFloats / (per_row * p.head_dim)));
  CHECK(per_row <= kMaxQueries && per_row * p.head_dim <= kQueryFloats, "too many query heads for one KV head");
  const auto row_blocks = [&](const SpanRows& span) { return (span.rows + rows_each - 1) / rows_each; };
  // Few rows over a long context: the tiles themselves are shared.
  constexpr int32_t kSplitTiles = 6;
  int64_t items = 0;
  for (const SpanRows& span : step.spans) items += int64_t{row_blocks(span)} * columns;
  const bool may_split = pool_.threads() > 1 && items < 4 * pool_.threads() && p.heads <= kMaxQueries &&
                         p.heads * p.head_dim <= kQueryFloats;
  const auto split = [&](const SpanRows& span) {
    return may_split && p.ancestor_mask == nullptr && span.rows <= 4 && span.context >= kSplitTiles * kAttentionTile &&
           (p.window == 0 || p.window >= kSplitTiles * kAttentionTile);
  };
  items = 0;
  for (const SpanRows& span : step.spans) {
    if (split(span))
      for (int32_t r = 0; r < span.rows; ++r) attend_split(p, span, r, *scratch_[0]);
    else
      items += int64_t{row_blocks(span)} * columns;
  }
  pool_.parallel_for_worker(items, [&](int64_t item, int32_t worker) {
    // Later rows of a causal span see more: the largest items are claimed first.
    int64_t index = items - 1 - item;
    for (const SpanRows& span : step.spans) {
      if (split(span)) continue;
      const int64_t mine = int64_t{row_blocks(span)} * columns;
      if (index >= mine) {
        index -= mine;
        continue;
      }
      const int32_t row0 = static_cast<int32_t>(index / columns) * rows_each;
      attend_item(p, span, row0, std::min(rows_each, span.rows - row0), static_cast<int32_t>(index % columns) * together,
                  *scratch_[static_cast<size_t>(worker)]);
      return;
    }
  });
}

}  // namespace slipstream
