// Prefill on Hopper: warpgroup products fed by tensor-map copies of cache blocks; bound by the tensor cores.
//
// Grid [kv_heads, chunks * splits, spans], longest chunks first; 384 threads, one CTA per multiprocessor. One warp copies K
// and V block by block into a ring of two stages each; two warpgroups own 64 packed rows each (attention_tile.cuh says what
// a packed row is). While a warpgroup's weights times V of one tile run on the tensor cores, so do the next tile's scores,
// and its softmax overlaps the other warpgroup's products. Shared memory: 160 KB at head_dim 128. Operations: 4 * head_dim *
// heads per row and visible token.
//
// An E4M3 cache arrives as codes in a ring of its own (another 64 KB, 32 KB at head_dim 256), from which the three warps
// beside the copying one widen each tile to F16 where the products read it.
//
// Measured on one H200, causal operations: 8k rows with 32/8 heads of 128: 995 us, 552 TFLOP/s (mma.sync: 325, torch's flash
// attention: 310); 2k after a prefix of 6k: 577; 2k alone: 347; heads of 256: 582, of 96: 434, of 64: 349 (there the
// exponentials are the limit). A tile of 128 tokens costs 1.7 us (650 TFLOP/s), a chunk 9 us besides; taking chunks from a
// counter with the next one's queries copied ahead was tried and did not change that.
// An E4M3 cache, 8k rows of 32/8 heads of 128: 1463 us, 376 TFLOP/s (mma.sync: 303): the widening warps take issue slots
// from the products' softmax. Four loads ahead and stores without bank conflicts were slower (325), integers too (267).
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/attention_wgmma.cuh"

namespace slipstream::cuda::attn {
namespace {

/// Rows of D BF16 or F16 as column groups of kRowBytes, [D / kColumns][rows][kColumns], each swizzled as tensor maps do it.
template <DType T, int D, int TILE>
struct WgmmaShape {
  static constexpr bool kHalf = CacheElement<T>::kHalf, kCodes = CacheElement<T>::kBytes == 1;
  static constexpr int kHeadDim = D, kTile = TILE, kStages = 2, kRows = 128, kThreads = 384;
  static constexpr int kRowBytes = D % 64 == 0 ? 128 : 64, kColumns = kRowBytes / 2, kGroups = D / kColumns;
  static constexpr uint32_t kTileBytes = TILE * D * 2, kQBytes = kRows * D * 2;
  // Codes of K and V of successive tiles in turn, [slots][TILE][D].
  static constexpr int kCodeSlots = !kCodes ? 0 : D == 256 ? 2 : 4;
  static constexpr uint32_t kCodeBytes = TILE * D;
  // Registers of a thread of the copying warpgroup and of the two others; the launch bounds leave the CTA 384 * 168.
  static constexpr int kFewRegisters = kCodes ? 40 : 24, kManyRegisters = kCodes ? 232 : 240;
  static_assert(128 * kFewRegisters + 256 * kManyRegisters <= 384 * 168);
  static constexpr uint32_t kKAt = kQBytes, kVAt = kKAt + kStages * kTileBytes, kCodesAt = kVAt + kStages * kTileBytes;
  static constexpr uint32_t kBarriersAt = kCodesAt + kCodeSlots * kCodeBytes;
  static constexpr uint32_t kCodeBarriersAt = kBarriersAt + 4 * kStages * 8;  // per slot: full, empty
  static constexpr uint32_t kSharedBytes = kCodeBarriersAt + 2 * kCodeSlots * 8 + 1024;  // and the way to a multiple of 1024
  static_assert(kSharedBytes <= 227 * 1024 && kGroups * kColumns == D);
};

struct WgmmaParams {
  TileParams tile;
  CUtensorMap k, v;  // [kv_blocks * kv_heads * block_tokens, head_dim], boxes [box_tokens, kColumns]; of codes [box_tokens, D]
  int32_t box_tokens;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kConsumers = 256;
constexpr int kTogether = 1, kTurn = 2;  // named barriers: both warpgroups; [kTurn + warpgroup] its turn

/// The copying warp: for each tile K, then V; a lane per box. Boxes outside the visible tokens are filled with zeros.
template <class S>
__device__ void copy_tiles(const WgmmaParams& w, const Chunk& c, int span, int kv_head, int start, int end, int tiles,
                           uint32_t shared, uint32_t barriers) {
  const TileParams& p = w.tile;
  const int lane = static_cast<int>(threadIdx.x) % 32, boxes = S::kTile / w.box_tokens;
  const int32_t* table = p.block_tables + int64_t{span} * p.table_stride;
  const auto row_of = [&](int tile) {  // the cache row of this lane's box; negative: outside
    const int token = start + tile * S::kTile + lane * w.box_tokens;
    if (lane >= boxes || token >= end || token + w.box_tokens <= c.low) return -w.box_tokens;
    const int block = token / p.block_tokens;
    if (block >= p.table_stride) return -w.box_tokens;
    const int id = min(max(__ldg(table + block), 0), p.kv_blocks - 1);
    return (id * p.kv_heads + kv_head) * p.block_tokens + token % p.block_tokens;
  };
  int row = row_of(0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % S::kStages;
    const uint32_t parity = static_cast<uint32_t>(tile / S::kStages) & 1u;
    const int next = tile + 1 < tiles ? row_of(tile + 1) : 0;
#pragma unroll
    for (int part = 0; part < 2; ++part) {  // K, V
      if constexpr (S::kCodes) {
        const int item = 2 * tile + part, slot = item % S::kCodeSlots;
        const uint32_t full = shared + S::kCodeBarriersAt + static_cast<uint32_t>(slot * 16);
        barrier_wait(full + 8, (static_cast<uint32_t>(item / S::kCodeSlots) & 1u) ^ 1u);
        if (lane == 0) barrier_expect(full, S::kCodeBytes);
        __syncwarp();
        if (lane < boxes)
          copy_box(shared + S::kCodesAt + static_cast<uint32_t>(slot) * S::kCodeBytes +
                       static_cast<uint32_t>(lane * w.box_tokens * S::kHeadDim),
                   part == 0 ? &w.k : &w.v, 0, row, full);
        continue;
      }
      const uint32_t full = barriers + static_cast<uint32_t>((2 * part * S::kStages + stage) * 8);
      const uint32_t empty = full + S::kStages * 8;
      const uint32_t to = shared + (part == 0 ? S::kKAt : S::kVAt) + static_cast<uint32_t>(stage) * S::kTileBytes;
      barrier_wait(empty, parity ^ 1u);
      if (lane == 0) barrier_expect(full, S::kTileBytes);
      __syncwarp();
      if (lane < boxes)
#pragma unroll
        for (int g = 0; g < S::kGroups; ++g)
          copy_box(to + static_cast<uint32_t>((g * S::kTile + lane * w.box_tokens) * S::kRowBytes), part == 0 ? &w.k : &w.v,
                   g * S::kColumns, row, full);
    }
    row = next;
  }
}

/// Three warps: codes of each tile to F16, in the order in which copy_tiles brings them.
template <class S>
__device__ void widen_tiles(int tiles, unsigned char* shared_bytes, uint32_t shared, uint32_t barriers) {
  constexpr int kRowChunks = S::kHeadDim / 16;  // 16 codes become two chunks of eight F16
  constexpr int kChunks = S::kRowBytes / 16;    // of a column group's row; the swizzle exchanges them
  const int thread = static_cast<int>(threadIdx.x) - 32;
#pragma unroll 1
  for (int item = 0; item < 2 * tiles; ++item) {
    const int tile = item / 2, part = item % 2, slot = item % S::kCodeSlots, stage = tile % S::kStages;
    const uint32_t code_full = shared + S::kCodeBarriersAt + static_cast<uint32_t>(slot * 16);
    const uint32_t full = barriers + static_cast<uint32_t>((2 * part * S::kStages + stage) * 8);
    barrier_wait(full + S::kStages * 8, (static_cast<uint32_t>(tile / S::kStages) & 1u) ^ 1u);  // nobody reads the stage
    barrier_wait(code_full, static_cast<uint32_t>(item / S::kCodeSlots) & 1u);
    const unsigned char* from = shared_bytes + S::kCodesAt + static_cast<uint32_t>(slot) * S::kCodeBytes;
    unsigned char* to = shared_bytes + (part == 0 ? S::kKAt : S::kVAt) + static_cast<uint32_t>(stage) * S::kTileBytes;
#pragma unroll 2
    for (int i = thread; i < S::kTile * kRowChunks; i += 96) {
      const int row = i / kRowChunks, chunk = i % kRowChunks;
      const uint4 codes = reinterpret_cast<const uint4*>(from)[i];
      uint4 wide[2];
      e4m3_widen(codes.x, wide[0].x, wide[0].y);
      e4m3_widen(codes.y, wide[0].z, wide[0].w);
      e4m3_widen(codes.z, wide[1].x, wide[1].y);
      e4m3_widen(codes.w, wide[1].z, wide[1].w);
      const int exchange = kChunks == 8 ? row % 8 : row / 2 % 4;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int chunk8 = 2 * chunk + j;
        const int at = ((chunk8 / kChunks) * S::kTile + row) * S::kRowBytes + ((chunk8 % kChunks) ^ exchange) * 16;
        *reinterpret_cast<uint4*>(to + at) = wide[j];
      }
    }
    fence_async();
    __syncwarp();
    if (thread % 32 == 0) {
      barrier_arrive(full);
      barrier_arrive(code_full + 8);
    }
  }
}

/// One warpgroup's 64 packed rows.
template <class S>
__device__ __forceinline__ void multiply_tiles(const TileParams& p, const Chunk& c, int span_index, int kv_head, int split,
                                               int start, int end, int tiles, unsigned char* shared_bytes, uint32_t shared,
                                               uint32_t barriers) {
  constexpr int D = S::kHeadDim, kTile = S::kTile;
  const int thread = static_cast<int>(threadIdx.x) - 128, group = thread / 128;  // the warpgroup
  const int warp = (thread / 32) % 4, lane = thread % 32;
  const bool diagonal = p.causal && p.ancestor_mask == nullptr;

  // Q of both warpgroups to shared memory, rounded; rows past the end repeat the last one and are never stored.
#pragma unroll 4
  for (int i = thread; i < S::kRows * (D / 8); i += kConsumers) {
    const int row = i / (D / 8), chunk8 = i % (D / 8), m = min(c.m0 + row, c.m_total - 1);
    const float* from = p.q + (c.first_row + m / p.group) * p.q_stride + int64_t{kv_head * p.group + m % p.group} * D + chunk8 * 8;
    uint32_t packed[4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float4 x = reinterpret_cast<const float4*>(from)[j];
      packed[2 * j] = pack_query<S::kHalf>(x.x, x.y);
      packed[2 * j + 1] = pack_query<S::kHalf>(x.z, x.w);
    }
    constexpr int kChunks = S::kRowBytes / 16;  // of a column group's row; the swizzle exchanges them
    const int exchanged = (chunk8 % kChunks) ^ (kChunks == 8 ? row % 8 : row / 2 % 4);
    const int at = ((chunk8 / kChunks) * S::kRows + row) * S::kRowBytes + exchanged * 16;
    *reinterpret_cast<uint4*>(shared_bytes + at) = {packed[0], packed[1], packed[2], packed[3]};
  }
  fence_async();
  named_barrier<kConsumers>(kTogether);

  // This lane's two rows and what they see.
  const int m_lane = c.m0 + group * 64 + warp * 16 + lane / 4, m_warp = c.m0 + group * 64 + warp * 16;
  const int warp_row_low = min(m_warp, c.m_total - 1) / p.group, warp_row_high = min(m_warp + 15, c.m_total - 1) / p.group;
  const int clear_high = p.ancestor_mask != nullptr ? c.context : diagonal ? c.context + warp_row_low + 1 : c.high;
  const int clear_low = p.window > 0 ? c.context + warp_row_high - p.window + 1 : 0;

  const uint64_t q_matrix = matrix<S::kRowBytes>(shared + static_cast<uint32_t>(group * 64 * S::kRowBytes), 0);
  const uint64_t k_matrix = matrix<S::kRowBytes>(shared + S::kKAt, 0);
  const uint64_t v_matrix = matrix<S::kRowBytes>(shared + S::kVAt, kTile * S::kRowBytes);
  const auto barrier = [&](int kind, int stage) { return barriers + static_cast<uint32_t>((kind * S::kStages + stage) * 8); };
  const auto stage_of = [&](int tile) { return tile % S::kStages; };
  const auto parity_of = [&](int tile) { return static_cast<uint32_t>(tile / S::kStages) & 1u; };

  float scores[kTile / 2], out[D / 2] = {};
  uint32_t weights[kTile / 16][4];
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {}, keep[2];

  const auto start_scores = [&](int tile) {
    barrier_wait(barrier(0, stage_of(tile)), parity_of(tile));
    const uint64_t k_tile = k_matrix + (static_cast<uint32_t>(stage_of(tile)) * S::kTileBytes >> 4);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      constexpr int kSteps = S::kColumns / 16;  // of a column group
      const uint32_t q_at = static_cast<uint32_t>((i / kSteps) * S::kRows * S::kRowBytes + (i % kSteps) * 32) >> 4;
      const uint32_t k_at = static_cast<uint32_t>((i / kSteps) * kTile * S::kRowBytes + (i % kSteps) * 32) >> 4;
      wgmma_shared<S::kHalf>(scores, q_matrix + q_at, k_tile + k_at, i > 0);
    }
    wgmma_commit();
  };
  // V rows that nobody may see are zeroed: a weight of 0 does not silence a stale NaN.
  const auto await_values = [&](int tile) {
    barrier_wait(barrier(2, stage_of(tile)), parity_of(tile));
    const int t0 = start + tile * kTile, first = max(0, c.low - t0), last = min(kTile, end - t0);
    if (first == 0 && last == kTile) return;
    unsigned char* v = shared_bytes + S::kVAt + static_cast<uint32_t>(stage_of(tile)) * S::kTileBytes;
    for (int i = thread; i < kTile * S::kGroups; i += kConsumers) {
      const int row = i % kTile;
      if (row >= first && row < last) continue;
#pragma unroll
      for (int j = 0; j < S::kRowBytes / 16; ++j) reinterpret_cast<uint4*>(v + i * S::kRowBytes)[j] = {};
    }
    fence_async();
    named_barrier<kConsumers>(kTogether);
  };
  const auto start_values = [&](int tile) {
    const uint64_t v_tile = v_matrix + (static_cast<uint32_t>(stage_of(tile)) * S::kTileBytes >> 4);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTile / 16; ++i)
      wgmma_registers<S::kHalf>(out, weights[i], v_tile + (static_cast<uint32_t>(i * 16 * S::kRowBytes) >> 4));
    wgmma_commit();
  };
  const auto release = [&](int kind, int tile) {
    if (lane == 0) barrier_arrive(barrier(kind + 1, stage_of(tile)));
  };
  // Scores to weights, in place; row_max, row_sum and keep follow.
  const auto softmax = [&](int tile) {
    const int t0 = start + tile * kTile;
    if (t0 < clear_low || t0 + kTile > clear_high) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = min(m_lane + 8 * half, c.m_total - 1) / p.group;
        const int row_end = diagonal ? c.context + r + 1 : c.high;
        const int row_start = p.window > 0 ? c.context + r - p.window + 1 : 0;
        const uint32_t mask = p.ancestor_mask != nullptr ? p.ancestor_mask[c.first_row + r] : 0;
#pragma unroll
        for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int t = t0 + j * 8 + (lane % 4) * 2 + e;
            bool seen = t >= row_start && t < row_end;
            if (p.ancestor_mask != nullptr && t >= c.context) seen = seen && ((mask >> (t - c.context)) & 1u) != 0;
            if (!seen) scores[4 * j + 2 * half + e] = -INFINITY;
          }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -INFINITY;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) top = fmaxf(top, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2)) * p.scale_log2;
      const float now = fmaxf(row_max[half], top), base = now == -INFINITY ? 0.0f : now;
      keep[half] = exp2_fast(row_max[half] - base);
      row_max[half] = now;
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
        for (int e = 4 * j + 2 * half; e < 4 * j + 2 * half + 2; ++e) {
          scores[e] = exp2_fast(fmaf(scores[e], p.scale_log2, -base));
          sum += scores[e];
        }
      row_sum[half] = row_sum[half] * keep[half] + sum;
    }
  };
  const auto pack = [&] {
#pragma unroll
    for (int i = 0; i < kTile / 16; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) weights[i][j] = pack_pair<S::kHalf>(scores[8 * i + 2 * j], scores[8 * i + 2 * j + 1]);
  };

  if (group == 1 && tiles > 1) named_arrive<kConsumers>(kTurn);  // the first turn is the first warpgroup's
  start_scores(0);
  wgmma_wait<0>();
  hold(scores);
  release(0, 0);
  softmax(0);
  pack();
  for (int tile = 1; tile < tiles; ++tile) {
    await_values(tile - 1);
    // The warpgroups take turns at the tensor cores: one's softmax runs beside the other's products.
    named_barrier<kConsumers>(kTurn + group);
    start_scores(tile);
    start_values(tile - 1);
    if (group == 0 || tile + 1 < tiles) named_arrive<kConsumers>(kTurn + 1 - group);
    wgmma_wait<1>();  // the scores
    hold(scores);
    release(0, tile);
    softmax(tile);
    wgmma_wait<0>();
    hold(out);
    release(2, tile - 1);
    if (__any_sync(0xffffffffu, keep[0] != 1.0f || keep[1] != 1.0f)) {  // rare after the first tiles
#pragma unroll
      for (int j = 0; j < D / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) out[4 * j + e] *= keep[e / 2];
    }
    pack();
  }
  await_values(tiles - 1);
  start_values(tiles - 1);
  wgmma_wait<0>();
  hold(out);

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = row_sum[half];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int m = m_lane + 8 * half;
    if (m >= c.m_end) continue;
    const int r = m / p.group, head = kv_head * p.group + m % p.group;
    const bool whole = c.active == 1;
    const int64_t at = whole ? (int64_t{c.first_row + r} * p.heads + head)
                             : ((int64_t{span_index} * p.max_rows + r) * p.heads + head) * p.splits + split;
    const float factor = !whole ? 1.0f : sum == 0.0f ? 0.0f : p.v_scale / sum;
    if (!whole && lane % 4 == 0) p.stats[at] = {row_max[half], sum};
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float2 x = {out[4 * j + 2 * half] * factor, out[4 * j + 2 * half + 1] * factor};
      const int64_t column = at * D + j * 8 + (lane % 4) * 2;
      if (!whole) {
        *reinterpret_cast<float2*>(p.partial + column) = x;
        continue;
      }
      if (p.out_f32 != nullptr) *reinterpret_cast<float2*>(p.out_f32 + column) = x;
      if (p.out_bf16 != nullptr) *reinterpret_cast<uint32_t*>(p.out_bf16 + column) = pack_bf16(x.x, x.y);
    }
  }
}

#endif

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) wgmma_kernel(const __grid_constant__ WgmmaParams w) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  unsigned char* shared_bytes = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const uint32_t shared = shared_address(shared_bytes), barriers = shared + S::kBarriersAt;
  const TileParams& p = w.tile;
  const int kv_head = static_cast<int>(blockIdx.x), span_index = static_cast<int>(blockIdx.z);
  const int chunk = p.chunks - 1 - static_cast<int>(blockIdx.y) / p.splits;
  const int split = static_cast<int>(blockIdx.y) % p.splits, span = p.first_span + span_index;
  release_dependents();
  wait_for_inputs();
  const Chunk c(p, span, chunk);
  if (split >= c.active) return;
  const int start = c.origin + split * p.split_tokens, end = min(c.high, start + p.split_tokens);
  const int tiles = (end - start + S::kTile - 1) / S::kTile;

  // Barriers per stage: K full, K empty, V full, V empty. Eight consumer warps empty a stage; the copy engine fills it, or
  // three warps that widen codes.
  if (threadIdx.x == 0) {
    for (int kind = 0; kind < 4; ++kind)
      for (int stage = 0; stage < S::kStages; ++stage)
        barrier_init(barriers + static_cast<uint32_t>((kind * S::kStages + stage) * 8), kind % 2 == 1 ? 8 : S::kCodes ? 3 : 1);
    for (int slot = 0; slot < S::kCodeSlots; ++slot) {
      barrier_init(shared + S::kCodeBarriersAt + static_cast<uint32_t>(slot * 16), 1);
      barrier_init(shared + S::kCodeBarriersAt + static_cast<uint32_t>(slot * 16 + 8), 3);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    prefetch_map(&w.k);
    prefetch_map(&w.v);
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<S::kFewRegisters>();
    if (threadIdx.x < 32)
      copy_tiles<S>(w, c, span, kv_head, start, end, tiles, shared, barriers);
    else if constexpr (S::kCodes)
      widen_tiles<S>(tiles, shared_bytes, shared, barriers);
  } else {
    take_registers<S::kManyRegisters>();
    multiply_tiles<S>(p, c, span_index, kv_head, split, start, end, tiles, shared_bytes, shared, barriers);
  }
#endif
}

/// cuTensorMapEncodeTiled through the runtime, so that nothing links the driver.
decltype(&cuTensorMapEncodeTiled) encoder() {
  static const auto found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result),
          "find cuTensorMapEncodeTiled");
    CHECK(result == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  }();
  return found;
}

template <class S>
CUtensorMap cache_map(void* cache, const AttentionArgs& args, int32_t box_tokens) {
  const int64_t rows = std::min<int64_t>(int64_t{args.kv_blocks} * args.kv_heads * args.kv.block_tokens,
                                         std::numeric_limits<int32_t>::max());
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(S::kHeadDim), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(S::kHeadDim) * (S::kCodes ? 1 : 2)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(S::kCodes ? S::kHeadDim : S::kColumns), static_cast<cuuint32_t>(box_tokens)}, steps[2] = {1, 1};
  CUtensorMap map{};
  const CUresult result = encoder()(&map, S::kCodes ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, cache,
                                    sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                    S::kCodes            ? CU_TENSOR_MAP_SWIZZLE_NONE
                                    : S::kRowBytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                          : CU_TENSOR_MAP_SWIZZLE_64B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK(result == CUDA_SUCCESS, "a tensor map of " + std::to_string(rows) + " rows was refused: " + std::to_string(result));
  return map;
}

template <class S>
void launch_wgmma(Context& context, const AttentionArgs& args, const SpanRange& range) {
  constexpr const char* kName = "attention prefill sm90";
  WgmmaParams w{};
  w.box_tokens = std::min(args.kv.block_tokens & -args.kv.block_tokens, S::kTile);  // the largest power of two that divides both
  const TileLaunch launch = plan_tiles(args, range, {S::kRows, S::kTile, context.facts().multiprocessors, w.box_tokens, false});
  w.tile = launch.params;
  w.k = cache_map<S>(args.kv.k, args, w.box_tokens);
  w.v = cache_map<S>(args.kv.v, args, w.box_tokens);
  check(cudaFuncSetAttribute(wgmma_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
        "raise the attention kernel's shared memory");
  cuda::launch(context, kName, wgmma_kernel<S>, launch.grid, dim3(S::kThreads), S::kSharedBytes, w);
  launch_merge<S::kHeadDim>(context, launch, range, kName);
}

template <DType T>
void launch_for_head(Context& context, const AttentionArgs& args, const SpanRange& range) {
  if (args.head_dim == 64)
    launch_wgmma<WgmmaShape<T, 64, 128>>(context, args, range);
  else if (args.head_dim == 96)
    launch_wgmma<WgmmaShape<T, 96, 128>>(context, args, range);
  else if (args.head_dim == 128)
    launch_wgmma<WgmmaShape<T, 128, 128>>(context, args, range);
  else
    launch_wgmma<WgmmaShape<T, 256, 64>>(context, args, range);
}

}  // namespace

bool prefill_sm90_supports(const AttentionArgs& args, int32_t arch, std::string* why) {
  std::string reason;
  if (!tile_supports(args, &reason)) {
  } else if (arch != 90) {
    reason = "wgmma is of compute capability 90 only, this is " + std::to_string(arch);
  } else if (args.split_tokens > 0) {
    reason = "fixed splits need the products' order of the decode kernel";
  } else if (reinterpret_cast<uintptr_t>(args.kv.k) % 16 != 0 || reinterpret_cast<uintptr_t>(args.kv.v) % 16 != 0) {
    reason = "the cache is not 16-byte aligned";
  } else if (reinterpret_cast<uintptr_t>(args.q) % 16 != 0 || args.q_stride % 4 != 0) {
    reason = "q rows are not 16-byte aligned";
  }
  if (why != nullptr) *why = reason;
  return reason.empty();
}

void launch_prefill_sm90(Context& context, const AttentionArgs& args, const SpanRange& range) {
  if (range.spans == 0 || range.max_rows == 0 || range.max_context == 0) return;
  for_cache_dtype(args.kv.dtype, [&]<DType T>() { launch_for_head<T>(context, args, range); });
}

}  // namespace slipstream::cuda::attn
