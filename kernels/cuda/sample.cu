// See sample.h. Grid, shared memory and bytes stand above each kernel; all are launched to overlap (launch.cuh).
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/sample_finish.cuh"
#include "kernels/cuda/sample_row.cuh"
#include "kernels/cuda/sample_select.cuh"

namespace slipstream::cuda {
namespace {

// Blocks of a multiprocessor that the registers are bounded for; grids are one wave of them.
constexpr int kLightBlocks = 3;
constexpr int kHeavyBlocks = 2;

/// Largest and smallest finite key of what a thread saw; a lower id among equals, since a thread's ids ascend.
struct Extremes {
  uint32_t best_key = 0, low = 0;
  int32_t best_token = 0;
  __device__ void add(int32_t token, const float4& v) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = element(v, i);
      const uint32_t key = isnan(x) ? kKeyOfNaN : law::order_key(x);
      if (key > best_key) best_key = key, best_token = token + i;
      if (key > kKeyOfNothing) low = max(low, ~key);
    }
  }
  __device__ unsigned long long best() const { return packed(best_key, best_token); }
};

// ---- greedy: grid (blocks, rows), 512 threads; reads 4 bytes per logit, once ----
template <bool kAligned>
__global__ __launch_bounds__(kSampleThreads, kLightBlocks) void greedy_kernel(SamplePass pass, GreedyState* states) {
  __shared__ BlockMax reduce;
  release_dependents();
  wait_for_inputs();
  const int32_t r = blockIdx.y;
  if (pass.row != nullptr && pass.row[r].position < 0) return;
  const RowValues<kAligned> values(pass, r, DeviceSampleRow{});
  Extremes seen;
  values.template for_groups<4>(blockIdx.x, gridDim.x, [&](int32_t token, const float4& v) { seen.add(token, v); });
  const unsigned long long best = reduce(seen.best());
  if (threadIdx.x != 0) return;
  GreedyState& state = states[r];
  atomicMax(&state.best, best);
  __threadfence();
  if (atomicAdd(&state.arrived, 1u) != gridDim.x - 1) return;
  const unsigned long long winner = atomicExch(&state.best, 0ull);
  state.arrived = 0;
  const uint32_t key = key_of(winner);
  write_token(&pass.out[r], key < kKeyOfInfinity && key > kKeyOfNothing, token_of(winner));
}

// ---- prepare: grid (kPrepareBlocks, rows), 512 threads; clears the row's state and marks every id that bias, suppression
// or penalties touch. Bytes: 12 KB of histograms; 4 bytes and two scattered words per history token when a penalty is on ----

constexpr int kPrepareBlocks = 8;

__global__ __launch_bounds__(kSampleThreads) void prepare_kernel(SamplePass pass) {
  release_dependents();
  wait_for_inputs();
  const int32_t r = blockIdx.y;
  const DeviceSampleRow row = pass.row[r];
  if (row.position < 0) return;
  const int32_t thread = static_cast<int32_t>(blockIdx.x) * kSampleThreads + static_cast<int32_t>(threadIdx.x);
  constexpr int32_t kThreads = kPrepareBlocks * kSampleThreads;
  if (thread == 0) pass.state[r] = SampleState{};
  for (int32_t i = thread; i < kBins; i += kThreads) {
    pass.weights[static_cast<int64_t>(r) * kBins + i] = 0;
    pass.raw_counts[static_cast<int64_t>(r) * kBins + i] = 0;
  }
  uint32_t* const touched = pass.touched + static_cast<int64_t>(r) * ((pass.vocab + 31) / 32);
  uint32_t* const uses = pass.uses + static_cast<int64_t>(r) * pass.vocab;
  for_touched(row, pass.vocab, thread, kThreads, [&](int32_t token, uint32_t use) {
    if (use == 1u)
      atomicAdd(&uses[token], use);
    else
      atomicOr(&uses[token], use);
    atomicOr(&touched[token >> 5], 1u << (token & 31));
  });
}

// ---- scan: grid (blocks, rows), 512 threads; reads 4 bytes per logit ----
template <bool kAligned>
__global__ __launch_bounds__(kSampleThreads, kLightBlocks) void scan_kernel(SamplePass pass) {
  __shared__ BlockMax reduce;
  release_dependents();
  wait_for_inputs();
  const int32_t r = blockIdx.y;
  const DeviceSampleRow row = pass.row[r];
  if (row.position < 0) return;
  const RowValues<kAligned> values(pass, r, row);
  Extremes raw, own;
  if (values.modified()) {
    values.template for_values<2>(blockIdx.x, gridDim.x, [&](int32_t token, const float4& v, const float4& modified) {
      raw.add(token, v);
      own.add(token, modified);
    });
  } else {
    values.template for_groups<4>(blockIdx.x, gridDim.x, [&](int32_t token, const float4& v) { raw.add(token, v); });
    own = raw;
  }
  SampleState& state = pass.state[r];
  unsigned long long v = reduce(raw.best());
  if (threadIdx.x == 0) atomicMax(&state.raw_best, v);
  v = reduce(own.best());
  if (threadIdx.x == 0) atomicMax(&state.best, v);
  v = reduce(static_cast<unsigned long long>(raw.low) << 32);
  if (threadIdx.x == 0) atomicMax(&state.raw_low, static_cast<uint32_t>(v >> 32));
  v = reduce(static_cast<unsigned long long>(own.low) << 32);
  if (threadIdx.x == 0) atomicMax(&state.low, static_cast<uint32_t>(v >> 32));
}

// ---- histogram: grid (blocks, rows), 512 threads, 12 KB shared; reads 4 bytes per logit; flushes at most 12 KB ----
template <bool kAligned>
__global__ __launch_bounds__(kSampleThreads, kHeavyBlocks) void histogram_kernel(SamplePass pass) {
  __shared__ uint32_t low[kBins], high[kBins], raw_counts[kBins], exp_table[32];
  __shared__ unsigned long long raw_mass;
  for (int i = threadIdx.x; i < kBins; i += kSampleThreads) low[i] = high[i] = raw_counts[i] = 0;
  load_exp_table(exp_table);
  if (threadIdx.x == 0) raw_mass = 0;
  release_dependents();
  wait_for_inputs();
  const int32_t r = blockIdx.y;
  const DeviceSampleRow row = pass.row[r];
  if (row.position < 0) return;
  SampleState& state = pass.state[r];
  const RowDraw draw(row, state, pass.vocab);
  const bool selects = draw.selects();
  const bool logprobs = draw.finite && row.top_logprobs >= 0;
  const bool tops = logprobs && row.top_logprobs > 0;
  if (!selects && !logprobs) return;
  __syncthreads();

  const WideCounters masses{low, high};
  const RowValues<kAligned> values(pass, r, row);
  const bool weighs_mass = draw.weighs_mass();
  const float raw_max = value_of_key(key_of(state.raw_best));
  const Bins raw_bins(raw_max, value_of_key(~state.raw_low));
  unsigned long long sum = 0;
  values.template for_values<2>(blockIdx.x, gridDim.x, [&](int32_t, const float4& raw, const float4& own) {
    if (logprobs) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = element(raw, i);
        sum += law::mass_from(exp_table, x - raw_max);
        if (tops && x > minus_infinity()) atomicAdd(&raw_counts[raw_bins(raw_max - x)], 1u);
      }
    }
    if (!selects) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float y = draw.divided(element(own, i));
      if (!(y > minus_infinity())) continue;
      const int bin = draw.bins(draw.max - y);
      if (!weighs_mass) {
        atomicAdd(&low[bin], 1u);
      } else if (const unsigned long long mass = law::mass_from(exp_table, y - draw.max); mass != 0) {
        masses.add(bin, mass);
      }
    }
  });
  if (logprobs) {
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) atomicAdd(&raw_mass, sum);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += kSampleThreads) {
    if (const unsigned long long weight = masses[i]; weight != 0)
      atomicAdd(&pass.weights[static_cast<int64_t>(r) * kBins + i], weight);
    if (raw_counts[i] != 0) atomicAdd(&pass.raw_counts[static_cast<int64_t>(r) * kBins + i], raw_counts[i]);
  }
  if (threadIdx.x == 0 && logprobs) atomicAdd(&state.raw_mass, raw_mass);
}

// ---- draw: grid (blocks, rows), 512 threads; reads 4 bytes per logit and the row's histogram ----

/// Appends to a row's list; the count goes on past the end, which tells finish to read the row itself.
__device__ void append(unsigned long long* list, int32_t* count, unsigned long long entry) {
  const int32_t at = atomicAdd(count, 1);
  if (at < kListEntries) list[at] = entry;
}

template <bool kAligned>
__global__ __launch_bounds__(kSampleThreads, kHeavyBlocks) void draw_kernel(SamplePass pass) {
  __shared__ BlockMax reduce;
  __shared__ BoundarySearch search;
  __shared__ struct {
    float sure, listed, raw_listed;
  } bound;
  release_dependents();
  wait_for_inputs();
  const int32_t r = blockIdx.y;
  const DeviceSampleRow row = pass.row[r];
  if (row.position < 0) return;
  SampleState& state = pass.state[r];
  const RowDraw draw(row, state, pass.vocab);
  const bool tops = draw.finite && row.top_logprobs > 0;
  if (!draw.by_noise && !tops) return;

  // Bins below `sure` survive whole; those from there to `boundary` go to the list.
  int sure = kBins, boundary = kBins, raw_boundary = -1;
  if (draw.selects()) {
    const unsigned long long* weights = pass.weights + static_cast<int64_t>(r) * kBins;
    const Boundary found = draw.weighs_mass() ? search.by_mass(weights, row.top_p) : search.by_count(weights, row.top_k);
    boundary = found.bin;
    sure = draw.lists_all() ? 0 : boundary;
    if (threadIdx.x == 0 && blockIdx.x == 0) state.boundary = boundary, state.above = found.above;
  }
  if (tops) {
    raw_boundary = search.by_count(pass.raw_counts + static_cast<int64_t>(r) * kBins, row.top_logprobs).bin;
    if (threadIdx.x == 0 && blockIdx.x == 0) state.raw_boundary = raw_boundary;
  }
  const bool draws_here = draw.by_noise && sure > 0;
  // Bins as bounds on the logit itself: the loop below neither divides nor looks for bins.
  const int warp = threadIdx.x / 32;
  if (warp == 0 && draw.by_noise && sure > 0 && sure < kBins) {
    const float least = least_logit(key_of(state.best), [&](float x) { return draw.reaches(x, sure - 1); });
    if (threadIdx.x == 0) bound.sure = least;
  }
  if (warp == 1 && draw.by_noise && boundary < kBins) {
    const float least = least_logit(key_of(state.best), [&](float x) { return draw.reaches(x, boundary); });
    if (threadIdx.x == 32) bound.listed = least;
  }
  if (warp == 2 && tops && raw_boundary < kBins) {
    const float max = value_of_key(key_of(state.raw_best));
    const Bins bins(max, value_of_key(~state.raw_low));
    const float least = least_logit(key_of(state.raw_best), [&](float x) { return bins(max - x) <= raw_boundary; });
    if (threadIdx.x == 64) bound.raw_listed = least;
  }
  __syncthreads();
  constexpr float kLowest = -3.402823466e38f;
  const float sure_x = sure == 0 ? -minus_infinity() : sure == kBins ? kLowest : bound.sure;
  const float listed_x = boundary == kBins ? kLowest : bound.listed;
  const float raw_listed_x = !tops ? -minus_infinity() : raw_boundary == kBins ? kLowest : bound.raw_listed;
  const RowValues<kAligned> values(pass, r, row);
  unsigned long long* const list = pass.list + static_cast<int64_t>(r) * kListEntries;
  unsigned long long* const raw_list = pass.raw_list + static_cast<int64_t>(r) * kListEntries;

  // The maximum's class survives whole wherever anything is drawn here, so its value is one that a winner must reach; so
  // is every value drawn since. A token with uniform u can reach a goal only if 1 - u <= e^(y - goal), since
  // -log(-log u) <= -log(1 - u); the slack covers the rounding of y (here a product), noise and sum. What passes is
  // computed exactly.
  const int32_t best_token = token_of(state.best);
  const float first_goal = draws_here ? draw.max + law::token_noise(row.seed, row.choice, row.position, best_token) : 0;
  uint32_t reached = law::order_key(first_goal);  // key of the best value that this warp knows
  const float slack = 1e-3f + 3e-6f * fabsf(first_goal);
  constexpr float kLargestNoise = 23.0f;
  const float inverse = draw.divides ? 1.0f / draw.temperature : 1.0f;
  unsigned long long drawn = 0;
  values.template for_values<2>(blockIdx.x, gridDim.x, [&](int32_t token, const float4& raw, const float4& own) {
    if (tops) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (const float x = element(raw, i); x >= raw_listed_x)
          append(raw_list, &state.raw_list_count, packed(law::order_key(x), token + i));
    }
    if (!draw.by_noise) return;
    reached = __reduce_max_sync(__activemask(), reached);
    const float goal = value_of_key(reached);
    const float least_y = fmaxf(goal - kLargestNoise, draw.floor) - slack;
    uint32_t here = 0, listed = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = element(own, i);
      if (x >= sure_x)
        here |= (x * inverse >= least_y ? 1u : 0u) << i;
      else if (x >= listed_x)
        listed |= 1u << i;
    }
    while (listed != 0) {
      const int i = __ffs(static_cast<int>(listed)) - 1;
      listed &= listed - 1;
      const float y = draw.divided(element(own, i));
      if (y > minus_infinity()) append(list, &state.list_count, packed(law::order_key(y), token + i));
    }
    if (here == 0) return;
    const law::PhiloxBlock noise =
        law::philox(row.seed, static_cast<uint32_t>(row.choice), static_cast<uint32_t>(row.position),
                    static_cast<uint32_t>(token) >> 2, law::kSampleDomain);
    uint32_t passes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float complement = static_cast<float>(~noise.word[i]) * 2.3283064365386963e-10f;
      if (complement <= __expf(element(own, i) * inverse - goal + slack)) passes |= 1u << i;
    }
    passes &= here;
    while (passes != 0) {
      const int i = __ffs(static_cast<int>(passes)) - 1;
      passes &= passes - 1;
      const float y = draw.divided(element(own, i));
      const uint32_t word = i == 0 ? noise.word[0] : i == 1 ? noise.word[1] : i == 2 ? noise.word[2] : noise.word[3];
      if (!(y >= draw.floor)) continue;
      const uint32_t key = law::order_key(y + law::gumbel(word));
      drawn = max(drawn, packed(key, token + i));
      reached = max(reached, key);
    }
  });
  if (!draws_here) return;
  drawn = reduce(drawn);
  if (threadIdx.x == 0 && drawn != 0) atomicMax(&state.drawn, drawn);
}

// ---- host ----

constexpr size_t kAlign = 256;

struct Carve {
  char* at;
  template <class T>
  T* take(size_t count) {
    T* const p = reinterpret_cast<T*>(at);
    at += (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return p;
  }
};

struct Layout {
  GreedyState* greedy;
  SamplePass pass;
  size_t bytes;

  /// rows: of the scratch, not of the call: what must be zero between calls never moves.
  Layout(void* scratch, int32_t rows, int32_t vocab) : pass{} {
    Carve carve{static_cast<char*>(scratch)};
    const auto n = static_cast<size_t>(std::min(rows, kSampleRowsPerPass));
    const auto v = static_cast<size_t>(vocab);
    pass.touched = carve.take<uint32_t>(n * ((v + 31) / 32));
    pass.uses = carve.take<uint32_t>(n * v);
    greedy = carve.take<GreedyState>(static_cast<size_t>(rows));
    pass.state = carve.take<SampleState>(n);
    pass.weights = carve.take<unsigned long long>(n * kBins);
    pass.raw_counts = carve.take<uint32_t>(n * kBins);
    pass.list = carve.take<unsigned long long>(n * kListEntries);
    pass.raw_list = carve.take<unsigned long long>(n * kListEntries);
    pass.vocab = vocab;
    bytes = static_cast<size_t>(carve.at - static_cast<char*>(scratch));
  }
};

/// One wave of blocks over all rows, at least one per row, and no block without work. (Several waves of smaller
/// blocks read at 3.1 TB/s where one wave reads at 3.9.)
int32_t blocks_per_row(const Context& context, int32_t rows, int32_t vocab, int32_t blocks_per_sm) {
  const int32_t groups = (vocab + 3) / 4;
  const int32_t most = (groups + kSampleThreads - 1) / kSampleThreads;
  return std::clamp(context.facts().multiprocessors * blocks_per_sm / rows, 1, most);
}

template <bool kAligned>
void launch_sample(Context& context, const SampleArgs& args, const Layout& layout) {
  constexpr dim3 kBlock(kSampleThreads);
  if (args.variant == SampleVariant::kGreedy) {
    SamplePass pass = layout.pass;
    pass.logits = args.logits, pass.row = args.row, pass.out = args.out;
    const dim3 grid(blocks_per_row(context, args.rows, args.vocab, kLightBlocks), args.rows);
    launch(context, "greedy_kernel", greedy_kernel<kAligned>, grid, kBlock, 0, pass, layout.greedy);
    return;
  }
  for (int32_t first = 0; first < args.rows; first += kSampleRowsPerPass) {
    const int32_t rows = std::min(kSampleRowsPerPass, args.rows - first);
    SamplePass pass = layout.pass;
    pass.logits = args.logits + static_cast<int64_t>(first) * args.vocab;
    pass.row = args.row + first;
    pass.out = args.out + first;
    const dim3 grid(blocks_per_row(context, rows, args.vocab, kLightBlocks), rows);
    const dim3 heavy(blocks_per_row(context, rows, args.vocab, kHeavyBlocks), rows);
    launch(context, "prepare_kernel", prepare_kernel, dim3(kPrepareBlocks, rows), kBlock, 0, pass);
    launch(context, "scan_kernel", scan_kernel<kAligned>, grid, kBlock, 0, pass);
    launch(context, "histogram_kernel", histogram_kernel<kAligned>, heavy, kBlock, 0, pass);
    launch(context, "draw_kernel", draw_kernel<kAligned>, heavy, kBlock, 0, pass);
    launch(context, "finish_kernel", finish_kernel, dim3(rows), kBlock, 0, pass);
  }
}

}  // namespace

size_t sample_scratch_bytes(int32_t rows, int32_t vocab) { return Layout(nullptr, rows, vocab).bytes; }

void sample(Context& context, const SampleArgs& args) {
  if (args.rows == 0) return;
  CHECK(args.vocab > 0 && args.vocab < (1 << 24), "vocabulary of the sampler");
  CHECK(args.variant == SampleVariant::kGreedy || args.row != nullptr, "sampling without row laws");
  CHECK(args.rows <= args.scratch_rows, "more rows than the sampler's scratch was sized for");
  const Layout layout(args.scratch, args.scratch_rows, args.vocab);
  if (args.vocab % 4 == 0 && reinterpret_cast<uintptr_t>(args.logits) % 16 == 0)
    launch_sample<true>(context, args, layout);
  else
    launch_sample<false>(context, args, layout);
}

std::vector<KernelChoice> sample_report(const Context&) {
  return {{"sample greedy", "one pass, 64-bit maxima", ""},
          {"sample", "three passes: maximum, histogram of distances, draw; radix selection at the boundary", ""}};
}

}  // namespace slipstream::cuda
