// The tensor-core attention kernel that decode and prefill instantiate: packed query rows of one KV head against a range of
// its cache, streamed through a ring of shared memory. Knows one span at a time; the shapes and the launch are elsewhere.
//
// The rows of a span and the query heads of one KV head are packed: packed row m is (row m / group, head m % group), so a
// tile of K and V is read once for all of them. A CTA owns kRows packed rows (a chunk) and the tokens of one split. Its
// kWarpsM x kWarpsN warps divide the rows and the tokens of each tile; with kWarpsN = kWarps a warp loads exactly the tokens
// that it multiplies, and no barrier is met until the end.
//
// An E4M3 cache is widened to F16 between shared memory and the products, in registers and without an exchange of lanes: a
// lane's four codes of K are neighbours in the head, so the head is summed in another order (the queries' as well); its
// codes of V are two neighbours for two tokens, so one product takes the even and one the odd elements of the head.
//
// Splits: each writes (accumulator, max, sum) of its rows. Few rows are merged, left to right, by the CTA of a chunk that
// finishes last; many by a launch of their own. A chunk with one active split writes its output at once.
#pragma once

#include "kernels/cuda/attention_merge.cuh"

namespace slipstream::cuda::attn {

/// T cache dtype; D head dim; WM x WN warps; MT 16-row tiles per warp; TILE tokens per stage; QS: Q in shared memory, not in
/// registers; SERIAL: a CTA goes through all splits of its chunk.
template <DType T, int D, int WM, int WN, int MT, int TILE, int STAGES, bool QS, int CTAS, bool SERIAL = false>
struct TileShape {
  using Element = CacheElement<T>;
  static constexpr bool kWide = Element::kBytes == 2;                    // multiplied as they lie
  static constexpr int kHeadDim = D, kWarpsM = WM, kWarpsN = WN, kRowTiles = MT, kTile = TILE, kStages = STAGES;
  static constexpr bool kQShared = QS, kSerial = SERIAL;
  static constexpr int kWarps = WM * WN, kThreads = 32 * kWarps, kCtas = CTAS;
  static constexpr int kRows = WM * MT * 16;
  static constexpr int kWarpTokens = TILE / WN;
  static constexpr int kGroups = TILE / 16;                              // loads go by 16 tokens, contiguous in the cache
  static constexpr int kLoaders = kWarps > kGroups ? kWarps / kGroups : 1;  // warps that share a group
  static constexpr int kWarpGroups = kWarps > kGroups ? 1 : kGroups / kWarps;
  static constexpr bool kPrivate = WM == 1 && kLoaders == 1;             // each warp loads its own tokens
  using Rows = SharedRows<D * Element::kBytes>;                          // of K and V
  using QRows = SharedRows<D * 2>;
  static constexpr uint32_t kTileBytes = TILE * Rows::kStride;           // of K or V
  static constexpr uint32_t kQBytes = QS ? kRows * QRows::kStride : 0;
  static constexpr uint32_t kRingBytes = 2 * STAGES * kTileBytes;
  // After the last tile the ring holds the warps' accumulators, [WN, rows, D] and their (max, sum).
  static constexpr uint32_t kMergeBytes = WN > 1 ? WN * kRows * (D * 4 + 8) : 0;
  static constexpr uint32_t kSharedBytes = kQBytes + (kRingBytes > kMergeBytes ? kRingBytes : kMergeBytes);
  static_assert(kWarpTokens % 16 == 0 && kSharedBytes <= 99 * 1024);
  static_assert(kGroups % kWarps == 0 || kWarps % kGroups == 0);
  static_assert(WN == 1 || MT == 1);
  static_assert(WN == 1 || !SERIAL, "the splits of a row belong to one warp");
  static_assert(!(QS && kPrivate), "Q in shared memory needs the barrier that private warps do without");
};

/// One warp's share of 16 tokens [16, D], contiguous in the cache, those outside [first, last) as zeros.
template <class S>
__device__ __forceinline__ void load_tokens(uint32_t to, const unsigned char* from, int first, int last, int part, int lane) {
  constexpr int kChunks = S::Rows::kChunks, kAll = 16 * kChunks, kTogether = 32 * S::kLoaders;
  const bool whole = first <= 0 && last >= 16;
#pragma unroll
  for (int i = 0; i < (kAll + kTogether - 1) / kTogether; ++i) {
    const int index = (i * S::kLoaders + part) * 32 + lane, token = index / kChunks, chunk = index % kChunks;
    if (kAll % kTogether != 0 && index >= kAll) return;
    const uint32_t target = to + S::Rows::at(token, chunk);
    if (whole)
      copy_async(target, from + index * 16);
    else
      copy_async(target, from + index * 16, token >= first && token < last ? 16u : 0u);
  }
}

/// Where a lane's pair `pair` of a 16-element group of the head begins: of the queries, whose pairs are 2c, 2c + 1 and the
/// same 8 further for elements that are multiplied as they lie, and 4 neighbours for codes, as the lane holds them of K.
template <class S>
__device__ __forceinline__ int query_pair(int c, int pair) {
  return S::kWide ? 2 * c + 8 * pair : 4 * c + 2 * pair;
}

/// Pair `j` of a lane's accumulators of one row half, and the column where it begins.
template <class S>
struct OutputPair {
  float2 value;
  int column;
  __device__ __forceinline__ OutputPair(const float (&out)[S::kHeadDim / 8][4], int j, int half, int c) {
    if constexpr (S::kWide) {
      value = {out[j][2 * half], out[j][2 * half + 1]};
      column = j * 8 + 2 * c;
    } else {
      value = {out[j & ~1][2 * half + (j & 1)], out[j | 1][2 * half + (j & 1)]};
      column = (j / 2) * 16 + 4 * c + 2 * (j & 1);
    }
  }
};

/// Grid [kv_heads, chunks * splits, spans]; the chunks with most to read come first.
template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kCtas) tile_kernel(const __grid_constant__ TileParams p) {
  constexpr int D = S::kHeadDim, MT = S::kRowTiles, kStages = S::kStages, kTile = S::kTile;
  constexpr int kPairs = S::kWarpTokens / 16;
  constexpr bool kHalf = S::Element::kHalf;
  using Rows = typename S::Rows;
  using QRows = typename S::QRows;
  extern __shared__ __align__(128) unsigned char shared[];

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_m = warp / S::kWarpsN, warp_n = warp % S::kWarpsN;
  const int kv_head = static_cast<int>(blockIdx.x), span_index = static_cast<int>(blockIdx.z);
  const int chunk = p.chunks - 1 - static_cast<int>(blockIdx.y) / p.splits;
  const int split = static_cast<int>(blockIdx.y) % p.splits;
  const int span = p.first_span + span_index;
  release_dependents();

  // Before the wait: what the step says, and tokens before its rows. Both were there before the product that q comes from
  // began, and that product waited for them before it let this kernel start.
  const Chunk c(p, span, chunk);
  const int start = c.origin + split * p.split_tokens;
  if (split >= c.active) return wait_for_inputs();
  const int end = S::kSerial ? c.high : min(c.high, start + p.split_tokens);
  const int first_row = c.first_row, context = c.context, m_total = c.m_total, m0 = c.m0, m_end = c.m_end;
  const int low = c.low, high = c.high, active = c.active;
  const bool diagonal = p.causal && p.ancestor_mask == nullptr;
  const int tiles = (end - start + kTile - 1) / kTile;

  // ---- loads ----
  const int32_t* table = p.block_tables + int64_t{span} * p.table_stride;
  constexpr int kTokenBytes = D * S::Element::kBytes;
  const int64_t block_stride = int64_t{p.kv_heads} * p.block_tokens * kTokenBytes;
  const unsigned char* k_head = p.k + int64_t{kv_head} * p.block_tokens * kTokenBytes;
  const unsigned char* v_head = p.v + int64_t{kv_head} * p.block_tokens * kTokenBytes;
  const uint32_t ring = shared_address(shared) + S::kQBytes;
  const int part = warp % S::kLoaders;
  const auto group_of = [&](int j) { return S::kLoaders > 1 ? warp / S::kLoaders : warp * S::kWarpGroups + j; };
  const auto block_of = [&](int token) {  // which block of the sequence; tokens are multiples of 16 here
    const uint32_t sixteens = static_cast<uint32_t>(token) >> 4;
    return static_cast<int>(p.block_magic == 0 ? sixteens : __umulhi(sixteens, p.block_magic));
  };
  const auto fetch_ids = [&](int tile, int32_t (&ids)[S::kWarpGroups]) {
#pragma unroll
    for (int j = 0; j < S::kWarpGroups; ++j) {
      const int token = start + tile * kTile + group_of(j) * 16;
      const int block = block_of(token);
      ids[j] = token < end && token + 16 > low && block < p.table_stride ? __ldg(table + block) : 0;
    }
  };
  const auto load = [&](int tile, const int32_t (&ids)[S::kWarpGroups], const unsigned char* head, uint32_t to) {
#pragma unroll
    for (int j = 0; j < S::kWarpGroups; ++j) {
      const int group = group_of(j), token = start + tile * kTile + group * 16;
      const int64_t id = min(max(ids[j], 0), p.kv_blocks - 1);
      const unsigned char* from = head + id * block_stride + int64_t{token - block_of(token) * p.block_tokens} * kTokenBytes;
      load_tokens<S>(to + static_cast<uint32_t>(group) * 16 * Rows::kStride, from, low - token, end - token, part, lane);
    }
  };
  const auto stage_of = [&](int tile) { return ring + static_cast<uint32_t>(tile % kStages) * (2 * S::kTileBytes); };

  // K and V of a tile as two groups of copies; empty ones past the end keep the count. Written once: code is fetched, too.
  const auto load_pair = [&](int tile, const int32_t (&ids)[S::kWarpGroups]) {
#pragma unroll 1
    for (int part_of_pair = 0; part_of_pair < 2; ++part_of_pair) {
      if (tile < tiles)
        load(tile, ids, part_of_pair == 0 ? k_head : v_head, stage_of(tile) + static_cast<uint32_t>(part_of_pair) * S::kTileBytes);
      copy_commit();
    }
  };
  int32_t ids[S::kWarpGroups];
  fetch_ids(0, ids);
  const int early = min(kStages - 1, max(0, (context - start) / kTile));
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (i == early) wait_for_inputs();
    load_pair(i, ids);
    fetch_ids(i + 1, ids);
  }
  if (early == kStages - 1) wait_for_inputs();

  // ---- queries: A fragments, rounded; packed rows past the end repeat the last one and are never stored ----
  constexpr int kDimSteps = D / 16;
  uint32_t q_regs[S::kQShared ? 1 : MT][S::kQShared ? 1 : kDimSteps][4];
  const int m_warp = m0 + warp_m * MT * 16;
  if constexpr (S::kQShared) {
    for (int i = static_cast<int>(threadIdx.x); i < S::kRows * (D / 8); i += S::kThreads) {
      const int row = i / (D / 8), column = i % (D / 8), m = min(m0 + row, m_total - 1);
      const float* from = p.q + (first_row + m / p.group) * p.q_stride + int64_t{kv_head * p.group + m % p.group} * D +
                          column / 2 * 16;
      uint32_t packed[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 x = *reinterpret_cast<const float2*>(from + query_pair<S>(j, column % 2));
        packed[j] = pack_query<kHalf>(x.x, x.y);
      }
      *reinterpret_cast<uint4*>(shared + QRows::at(row, column)) = {packed[0], packed[1], packed[2], packed[3]};
    }
  } else {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = min(m_warp + mt * 16 + half * 8 + lane / 4, m_total - 1);
        const float* from = p.q + (first_row + m / p.group) * p.q_stride + int64_t{kv_head * p.group + m % p.group} * D;
#pragma unroll
        for (int i = 0; i < kDimSteps; ++i)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const float2 x = *reinterpret_cast<const float2*>(from + i * 16 + query_pair<S>(lane % 4, j));
            q_regs[mt][i][2 * j + half] = pack_query<kHalf>(x.x, x.y);
          }
      }
  }

  // ---- visibility ----
  // Tiles inside [clear_low, clear_high) are visible to each row of the warp.
  const int warp_row_low = min(m_warp, m_total - 1) / p.group;
  const int warp_row_high = min(m_warp + MT * 16 - 1, m_total - 1) / p.group;
  const int clear_high = p.ancestor_mask != nullptr ? context : diagonal ? context + warp_row_low + 1 : high;
  const int clear_low = p.window > 0 ? context + warp_row_high - p.window + 1 : 0;

  const LaneRow<Rows::kRowBytes> k_lane((lane / 16) * 8 + lane % 8, (lane / 8) & 1);
  const LaneRow<Rows::kRowBytes> v_lane(((lane / 8) & 1) * 8 + lane % 8, lane / 16);
  const LaneRow<QRows::kRowBytes> q_lane(((lane / 8) & 1) * 8 + lane % 8, lane / 16);

  float out[MT][D / 8][4] = {};
  float row_max[MT][2], row_sum[MT][2] = {};
#pragma unroll
  for (int mt = 0; mt < MT; ++mt) row_max[mt][0] = row_max[mt][1] = -INFINITY;

  // Serial shapes: what the splits before this one gave; their accumulators wait in p.partial, [rows, heads, D], where only
  // the lane that owns an element reads it.
  RunningSplits running[S::kSerial ? MT : 1][2];
  const auto own_place = [&](int m) {
    return (int64_t{first_row + m / p.group} * p.heads + kv_head * p.group + m % p.group) * D + (lane % 4) * 2;
  };
  /// The split that ends with `tile` joins the ones before it; `last` leaves the whole in `out`.
  const auto close_split = [&](bool first, bool last) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        RunningSplits& run = running[mt][half];
        float& sum = row_sum[mt][half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        run.add({row_max[mt][half], sum});
        const int m = m_warp + mt * 16 + half * 8 + lane / 4;
        float* const place = p.partial + own_place(min(m, m_end - 1));
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          float2& kept = *reinterpret_cast<float2*>(place + j * 8);
          const float2 before = first || m >= m_end ? float2{} : kept;
          float& x = out[mt][j][2 * half];
          float& y = out[mt][j][2 * half + 1];
          x = run.fold(before.x, x), y = run.fold(before.y, y);
          if (last) continue;
          if (m < m_end) kept = {x, y};
          x = y = 0.0f;
        }
        row_max[mt][half] = last ? run.top : -INFINITY;
        sum = last ? run.sum : 0.0f;
      }
  };

  const auto meet = [] {
    if constexpr (S::kPrivate)
      __syncwarp();
    else
      __syncthreads();
  };

  for (int tile = 0; tile < tiles; ++tile) {
    const uint32_t k_at = stage_of(tile) + static_cast<uint32_t>(warp_n * S::kWarpTokens) * Rows::kStride;
    const uint32_t v_at = k_at + S::kTileBytes;
    copy_wait<2 * kStages - 3>();  // K of this tile
    meet();                        // and the previous tile's stage is free
    load_pair(tile + kStages - 1, ids);
    fetch_ids(tile + kStages, ids);

    // scores [MT * 16, kWarpTokens]; a warp with few products, and with registers, keeps even and odd steps as two chains
    constexpr int kChains = kPairs * MT == 1 && D <= 128 ? 2 : 1;
    float chains[kChains][MT][2 * kPairs][4] = {};
    float(&s)[MT][2 * kPairs][4] = chains[0];
#pragma unroll
    for (int i = 0; i < kDimSteps; i += S::kWide ? 1 : 2) {
      uint32_t q_step[S::kWide ? 1 : 2][MT][4];
#pragma unroll
      for (int step = 0; step < (S::kWide ? 1 : 2); ++step)
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) {
          if constexpr (S::kQShared)
            load_matrices(q_step[step][mt], shared_address(shared) +
                                                static_cast<uint32_t>((warp_m * MT + mt) * 16 * QRows::kStride) + q_lane.at(i + step));
          else
#pragma unroll
            for (int j = 0; j < 4; ++j) q_step[step][mt][j] = q_regs[mt][i + step][j];
        }
#pragma unroll
      for (int n = 0; n < kPairs; ++n) {
        uint32_t b[4];
        load_matrices(b, k_at + static_cast<uint32_t>(n * 16 * Rows::kStride) + k_lane.at(S::kWide ? i : i / 2));
        if constexpr (S::kWide) {
#pragma unroll
          for (int mt = 0; mt < MT; ++mt) {
            multiply<kHalf>(chains[i % kChains][mt][2 * n], q_step[0][mt], b[0], b[1]);
            multiply<kHalf>(chains[i % kChains][mt][2 * n + 1], q_step[0][mt], b[2], b[3]);
          }
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j) {  // eight tokens, one of two steps
            uint32_t b0, b1;
            e4m3_widen(b[j], b0, b1);
#pragma unroll
            for (int mt = 0; mt < MT; ++mt)
              multiply<kHalf>(chains[j % kChains][mt][2 * n + j / 2], q_step[S::kWide ? 0 : j % 2][mt], b0, b1);
          }
        }
      }
    }
    if constexpr (kChains > 1)
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[0][n][e] += chains[1][0][n][e];

    const int warp_start = start + tile * kTile + warp_n * S::kWarpTokens;
    if (warp_start < clear_low || warp_start + S::kWarpTokens > clear_high) {
#pragma unroll
      for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          // Found anew in the few tiles at an edge: registers are dearer.
          const int r = min(m_warp + mt * 16 + half * 8 + lane / 4, m_total - 1) / p.group;
          const int row_end = diagonal ? context + r + 1 : high;
          const int row_start = p.window > 0 ? context + r - p.window + 1 : 0;
          const uint32_t mask = p.ancestor_mask != nullptr ? p.ancestor_mask[first_row + r] : 0;
#pragma unroll
          for (int n = 0; n < 2 * kPairs; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int t = warp_start + n * 8 + (lane % 4) * 2 + e;
              bool seen = t >= row_start && t < row_end;
              if (p.ancestor_mask != nullptr && t >= context) seen = seen && ((mask >> (t - context)) & 1u) != 0;
              if (!seen) s[mt][n][2 * half + e] = -INFINITY;  // replaced, whatever the product was
            }
        }
    }

    // online softmax, in units of log2
    bool moved = false;
    float keep[MT][2];
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = -INFINITY;
#pragma unroll
        for (int n = 0; n < 2 * kPairs; ++n) top = fmaxf(top, fmaxf(s[mt][n][2 * half], s[mt][n][2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2)) * p.scale_log2;
        const float before = row_max[mt][half], now = fmaxf(before, top);
        const float base = now == -INFINITY ? 0.0f : now;  // nothing seen yet: all weights below are 0
        keep[mt][half] = exp2_fast(before - base);
        moved = moved || now > before;
        row_max[mt][half] = now;
        float sum = 0.0f;
#pragma unroll
        for (int n = 0; n < 2 * kPairs; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            s[mt][n][e] = exp2_fast(fmaf(s[mt][n][e], p.scale_log2, -base));
            sum += s[mt][n][e];
          }
        row_sum[mt][half] = row_sum[mt][half] * keep[mt][half] + sum;
      }
    if (__any_sync(0xffffffffu, moved)) {
#pragma unroll
      for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) out[mt][j][e] *= keep[mt][e / 2];
    }

    copy_wait<2 * kStages - 2>();  // V of this tile
    meet();
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      uint32_t weights[MT][4];
#pragma unroll
      for (int mt = 0; mt < MT; ++mt)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          weights[mt][j] = pack_pair<kHalf>(s[mt][2 * n + j / 2][2 * (j % 2)], s[mt][2 * n + j / 2][2 * (j % 2) + 1]);
#pragma unroll
      for (int j = 0; j < Rows::kRowBytes / 32; ++j) {
        uint32_t b[4];
        load_matrices_transposed(b, v_at + static_cast<uint32_t>(n * 16 * Rows::kStride) + v_lane.at(j));
        if constexpr (S::kWide) {
#pragma unroll
          for (int mt = 0; mt < MT; ++mt) {
            multiply<kHalf>(out[mt][2 * j], weights[mt], b[0], b[1]);
            multiply<kHalf>(out[mt][2 * j + 1], weights[mt], b[2], b[3]);
          }
        } else {
#pragma unroll
          for (int group = 0; group < 2; ++group) {  // of 16 elements: even ones, odd ones
            uint32_t even[2], odd[2];
            e4m3_split(b[2 * group], even[0], odd[0]);
            e4m3_split(b[2 * group + 1], even[1], odd[1]);
#pragma unroll
            for (int mt = 0; mt < MT; ++mt) {
              multiply<kHalf>(out[mt][4 * j + 2 * group], weights[mt], even[0], even[1]);
              multiply<kHalf>(out[mt][4 * j + 2 * group + 1], weights[mt], odd[0], odd[1]);
            }
          }
        }
      }
    }
    if constexpr (S::kSerial) {
      const int split_tiles = p.split_tokens / kTile;
      if ((tile + 1) % split_tiles == 0 && tile + 1 < tiles) close_split(tile + 1 == split_tiles, false);
    }
  }

  if (S::kSerial && active > 1) {
    close_split(false, true);
  } else {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& sum = row_sum[mt][half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      }
  }

  // ---- store: the output, or this split's partial result ----
  const bool whole = S::kSerial || active == 1;
  const auto place = [&](int m, int64_t* to) {  // false: nobody's row
    const int r = m / p.group, head = kv_head * p.group + m % p.group;
    *to = whole ? (int64_t{first_row + r} * p.heads + head)
                : ((int64_t{span_index} * p.max_rows + r) * p.heads + head) * p.splits + split;
    return m < m_end;
  };
  copy_wait<0>();
  if constexpr (S::kWarpsN > 1) {
    // The warps' token shares first come together: each brings its accumulators to the common maximum.
    float* accs = reinterpret_cast<float*>(shared + S::kQBytes);  // [WN, rows, D]
    float2* stats = reinterpret_cast<float2*>(accs + S::kWarpsN * S::kRows * D);  // [WN, rows]
    __syncthreads();
    const int row0 = warp_m * 16 + lane / 4;
    if (lane % 4 == 0) {
      stats[warp_n * S::kRows + row0] = {row_max[0][0], row_sum[0][0]};
      stats[warp_n * S::kRows + row0 + 8] = {row_max[0][1], row_sum[0][1]};
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -INFINITY;
#pragma unroll
      for (int w = 0; w < S::kWarpsN; ++w) top = fmaxf(top, stats[w * S::kRows + row0 + 8 * half].x);
      const float factor = exp2_fast(row_max[0][half] - (top == -INFINITY ? 0.0f : top));
      // A factor of 0 keeps a NaN: a warp whose scores were all NaN has no maximum.
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        const OutputPair<S> pair(out[0], j, half, lane % 4);
        *reinterpret_cast<float2*>(accs + (warp_n * S::kRows + row0 + 8 * half) * D + pair.column) = {pair.value.x * factor,
                                                                                                     pair.value.y * factor};
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < S::kRows * (D / 4); i += S::kThreads) {
      const int row = i / (D / 4), quad = i % (D / 4);
      int64_t at;
      if (!place(m0 + row, &at)) continue;
      float top = -INFINITY, sum = 0.0f;
      float4 x = {};
#pragma unroll
      for (int w = 0; w < S::kWarpsN; ++w) top = fmaxf(top, stats[w * S::kRows + row].x);
#pragma unroll
      for (int w = 0; w < S::kWarpsN; ++w) {
        const float2 stat = stats[w * S::kRows + row];
        sum += stat.y * exp2_fast(stat.x - (top == -INFINITY ? 0.0f : top));
        const float4 y = reinterpret_cast<const float4*>(accs + (w * S::kRows + row) * D)[quad];
        x = {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
      }
      if (!whole) {
        reinterpret_cast<float4*>(p.partial + at * D)[quad] = x;
        if (quad == 0) p.stats[at] = {top, sum};
        continue;
      }
      const float inverse = sum == 0.0f ? 0.0f : p.v_scale / sum;
      x = {x.x * inverse, x.y * inverse, x.z * inverse, x.w * inverse};
      if (p.out_f32 != nullptr) reinterpret_cast<float4*>(p.out_f32 + at * D)[quad] = x;
      if (p.out_bf16 != nullptr)
        reinterpret_cast<uint2*>(p.out_bf16 + at * D)[quad] = {pack_bf16(x.x, x.y), pack_bf16(x.z, x.w)};
    }
  } else {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int64_t at;
        if (!place(m_warp + mt * 16 + half * 8 + lane / 4, &at)) continue;
        const float sum = row_sum[mt][half];
        const float factor = !whole ? 1.0f : sum == 0.0f ? 0.0f : p.v_scale / sum;
        if (!whole && lane % 4 == 0) p.stats[at] = {row_max[mt][half], sum};
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          const OutputPair<S> pair(out[mt], j, half, lane % 4);
          const float2 x = {pair.value.x * factor, pair.value.y * factor};
          const int64_t column = at * D + pair.column;
          if (!whole) {
            *reinterpret_cast<float2*>(p.partial + column) = x;
            continue;
          }
          if (p.out_f32 != nullptr) *reinterpret_cast<float2*>(p.out_f32 + column) = x;
          if (p.out_bf16 != nullptr) *reinterpret_cast<uint32_t*>(p.out_bf16 + column) = pack_bf16(x.x, x.y);
        }
      }
  }
  merge_if_last<D, S::kWarps>(p, c, span_index, kv_head, chunk);
}

}  // namespace slipstream::cuda::attn
