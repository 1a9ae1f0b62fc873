// What the sampling kernels share: a row's scratch, its values after every modification, bins of distances, block-wide
// reductions. Private to sample*.cu. The law itself is kernels/sample_law.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/sample.h"
#include "kernels/sample_law.h"

namespace slipstream::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;
inline constexpr int kListEntries = 4096;

// Bins of d = max - y, monotone in d: linear up to kLinearReach or to the smallest logit, then 16 per octave.
inline constexpr int kLinearBins = 768;
inline constexpr int kOctaveBins = 256;
inline constexpr int kBins = kLinearBins + kOctaveBins;
inline constexpr float kLinearReach = 20.0f;

inline constexpr uint32_t kKeyOfNothing = 0x007FFFFFu;   // law::order_key(-inf)
inline constexpr uint32_t kKeyOfInfinity = 0xFF800000u;  // law::order_key(+inf)
inline constexpr uint32_t kKeyOfNaN = 0xFFFFFFFFu;

/// One row's state between the kernels of a pass; prepare clears it.
struct SampleState {
  unsigned long long raw_best;    // packed(key, token) of the largest logit; NaN counts as the largest
  unsigned long long best;        // the same after bias, masks and penalties
  unsigned long long drawn;       // packed(key of value + noise, token)
  unsigned long long raw_mass;    // of the raw logits
  uint32_t raw_low, low;          // complement of the key of the smallest finite logit
  int32_t list_count, raw_list_count;
  unsigned long long above;       // weight above the boundary bin
  int32_t boundary, raw_boundary; // bins
};
struct GreedyState {
  unsigned long long best;
  uint32_t arrived;
};

/// The scratch of one pass, carved from SampleArgs::scratch.
struct SamplePass {
  const float* logits;          // [rows, vocab]
  const DeviceSampleRow* row;   // [rows]
  SampledToken* out;            // [rows]
  SampleState* state;           // [rows]
  unsigned long long* weights;  // [rows, kBins] counts (top-k) or masses (top-p)
  uint32_t* raw_counts;         // [rows, kBins]
  unsigned long long* list;     // [rows, kListEntries] packed(key, token)
  unsigned long long* raw_list; // [rows, kListEntries]
  uint32_t* touched;            // [rows, ceil(vocab / 32)] ids that bias, suppression or penalties touch; zero between passes
  uint32_t* uses;               // [rows, vocab] of those ids: kInPrompt, kListed, uses in the output; zero between passes
  int32_t vocab;
};

__device__ inline unsigned long long packed(uint32_t key, int32_t token) {
  return static_cast<unsigned long long>(key) << 32 | static_cast<uint32_t>(~token);
}
__device__ inline int32_t token_of(unsigned long long entry) { return static_cast<int32_t>(~static_cast<uint32_t>(entry)); }
__device__ inline uint32_t key_of(unsigned long long entry) { return static_cast<uint32_t>(entry >> 32); }
/// Inverse of law::order_key but for the sign of zero.
__device__ inline float value_of_key(uint32_t key) { return law::bits_float(key & 0x80000000u ? key ^ 0x80000000u : ~key); }

__device__ inline float minus_infinity() { return __int_as_float(0xFF800000); }

__device__ inline bool has_penalty(const DeviceSampleRow& row) {
  return row.repetition_penalty != 1.0f || row.frequency_penalty != 0.0f || row.presence_penalty != 0.0f;
}
__device__ inline bool touches(const DeviceSampleRow& row) {
  return has_penalty(row) || row.bias_count > 0 || row.suppressed_count > 0;
}

inline constexpr uint32_t kInPrompt = 0x80000000u;
inline constexpr uint32_t kListed = 0x40000000u;  // has a bias or is suppressed
inline constexpr uint32_t kUses = 0x3FFFFFFFu;

/// Final value of one touched id before the temperature; x is its logit after the mask. Out of line: few ids are touched.
__device__ __noinline__ static float touched_value(const DeviceSampleRow* row, int32_t token, float x, uint32_t uses) {
  if ((uses & kListed) != 0) {
    for (int32_t i = 0; i < row->bias_count; ++i)
      if (row->bias[i].token == token) x += row->bias[i].bias;
    for (int32_t i = 0; i < row->suppressed_count; ++i)
      if (row->suppressed[i] == token) x = minus_infinity();
  }
  if (const float penalty = row->repetition_penalty; penalty != 1.0f && (uses & ~kListed) != 0)
    x = x > 0 ? __fdiv_rn(x, penalty) : law::product(x, penalty);
  if (const uint32_t count = uses & kUses; count != 0) {
    x -= law::product(row->frequency_penalty, static_cast<float>(static_cast<int32_t>(count)));
    x -= row->presence_penalty;
  }
  return isnan(x) ? minus_infinity() : x;
}

/// A row's logits, raw and modified, four at a time.
template <bool kAligned>
struct RowValues {
  const float* logits;
  const uint32_t* mask;     // or null
  const uint32_t* touched;  // or null
  const uint32_t* uses;
  const DeviceSampleRow* law;
  int32_t vocab;

  __device__ RowValues(const SamplePass& pass, int32_t r, const DeviceSampleRow& row)
      : logits(pass.logits + static_cast<int64_t>(r) * pass.vocab),
        mask(row.mask),
        touched(touches(row) ? pass.touched + static_cast<int64_t>(r) * ((pass.vocab + 31) / 32) : nullptr),
        uses(pass.uses + static_cast<int64_t>(r) * pass.vocab),
        law(pass.row + r),
        vocab(pass.vocab) {}

  __device__ bool modified() const { return mask != nullptr || touched != nullptr; }
  /// Logits token .. token + 3; past the vocabulary -inf.
  __device__ float4 raw(int32_t token) const {
    if constexpr (kAligned) return *reinterpret_cast<const float4*>(logits + token);
    float4 v;
    v.x = logits[token];
    v.y = token + 1 < vocab ? logits[token + 1] : minus_infinity();
    v.z = token + 2 < vocab ? logits[token + 2] : minus_infinity();
    v.w = token + 3 < vocab ? logits[token + 3] : minus_infinity();
    return v;
  }
  /// Mask, bias, suppression, penalties, given the words of both bitmaps (all ones and zero where there is none) and the
  /// uses of the first touched id.
  __device__ float4 modify(int32_t token, float4 x, uint32_t allowed, uint32_t own, uint32_t first) const {
    allowed >>= token & 31;
    if ((allowed & 1) == 0) x.x = minus_infinity();
    if ((allowed & 2) == 0) x.y = minus_infinity();
    if ((allowed & 4) == 0) x.z = minus_infinity();
    if ((allowed & 8) == 0) x.w = minus_infinity();
    own = own >> (token & 31) & 15u;
    while (own != 0) {
      const int i = __ffs(static_cast<int>(own)) - 1;
      own &= own - 1;
      const float value = touched_value(law, token + i, i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w, first);
      if (own != 0) first = uses[token + __ffs(static_cast<int>(own)) - 1];
      if (i == 0) x.x = value;
      if (i == 1) x.y = value;
      if (i == 2) x.z = value;
      if (i == 3) x.w = value;
    }
    return x;
  }
  /// One token.
  __device__ float modified_logit(int32_t token) const {
    float x = logits[token];
    if (mask != nullptr && (mask[token >> 5] >> (token & 31) & 1) == 0) x = minus_infinity();
    if (touched != nullptr && (touched[token >> 5] >> (token & 31) & 1) != 0)
      x = touched_value(law, token, x, uses[token]);
    return x;
  }
  /// f(first token, raw values) over the groups of four that this block owns; kLoads loads in flight per thread.
  template <int kLoads, class F>
  __device__ void for_groups(int32_t block, int32_t blocks, F&& f) const {
    const int32_t groups = (vocab + 3) / 4;
    const int32_t slice = ((groups + blocks - 1) / blocks + 7) & ~7;
    const int32_t end = min(groups, slice * (block + 1));
    for (int32_t g = slice * block + static_cast<int32_t>(threadIdx.x); g < end; g += kLoads * kSampleThreads) {
      float4 v[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (g + i * kSampleThreads < end) v[i] = raw(4 * (g + i * kSampleThreads));
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (g + i * kSampleThreads < end) f(4 * (g + i * kSampleThreads), v[i]);
    }
  }
  /// f(first token, raw values, modified values), the same way.
  template <int kLoads, class F>
  __device__ void for_values(int32_t block, int32_t blocks, F&& f) const {
    if (!modified()) {
      for_groups<kLoads>(block, blocks, [&](int32_t token, const float4& v) { f(token, v, v); });
      return;
    }
    const int32_t groups = (vocab + 3) / 4;
    const int32_t slice = ((groups + blocks - 1) / blocks + 7) & ~7;
    const int32_t end = min(groups, slice * (block + 1));
    for (int32_t g = slice * block + static_cast<int32_t>(threadIdx.x); g < end; g += kLoads * kSampleThreads) {
      float4 v[kLoads];
      uint32_t allowed[kLoads], own[kLoads], first[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int32_t at = g + i * kSampleThreads;
        own[i] = 0;
        allowed[i] = ~0u;
        if (at >= end) continue;
        v[i] = raw(4 * at);
        if (mask != nullptr) allowed[i] = mask[at >> 3];
        if (touched != nullptr) own[i] = touched[at >> 3];
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int32_t at = g + i * kSampleThreads;
        const uint32_t bits = own[i] >> (4 * at & 31) & 15u;
        first[i] = bits != 0 ? uses[4 * at + __ffs(static_cast<int>(bits)) - 1] : 0;
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int32_t at = g + i * kSampleThreads;
        if (at < end) f(4 * at, v[i], modify(4 * at, v[i], allowed[i], own[i], first[i]));
      }
    }
  }
};

/// Element i of a float4 under an unrolled loop.
__device__ inline float element(const float4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

struct Bins {
  float linear_end;
  float scale;
  uint32_t end_bits;

  __device__ Bins(float max, float low) {
    const float range = max - low;
    linear_end = range > 0 ? fminf(range, kLinearReach) : kLinearReach;
    scale = kLinearBins / linear_end;
    end_bits = law::float_bits(linear_end);
  }
  __device__ int operator()(float d) const {
    if (d < linear_end) return min(static_cast<int>(d * scale), kLinearBins - 1);
    return kLinearBins + static_cast<int>(min((law::float_bits(d) - end_bits) >> 19, static_cast<uint32_t>(kOctaveBins - 1)));
  }
};

/// What is left to do for a row once its maximum is known; the same in every thread and kernel.
struct RowDraw {
  bool finite;     // the row can be drawn
  bool by_noise;   // not an argmax
  bool by_top_k, by_top_p;
  float max;       // of y = x / T
  float floor;     // min-p
  bool divides;
  float temperature;
  Bins bins;

  __device__ static bool finite_row(const SampleState& state) {
    const uint32_t raw = key_of(state.raw_best);
    return raw < kKeyOfInfinity && raw > kKeyOfNothing;
  }
  __device__ RowDraw(const DeviceSampleRow& row, const SampleState& state, int32_t vocab)
      : finite(finite_row(state) && key_of(state.best) > kKeyOfNothing),
        divides(row.temperature != 1.0f),
        temperature(row.temperature),
        bins(0, 0) {
    by_noise = finite && !(row.temperature < law::kGreedyTemperature || row.top_k == 1);
    const float best = value_of_key(key_of(state.best));
    max = by_noise && divides ? __fdiv_rn(best, temperature) : best;
    by_noise = by_noise && !isinf(max);
    if (!by_noise) {
      by_top_k = by_top_p = false;
      return;
    }
    by_top_k = row.top_k > 0 && row.top_k < vocab;
    by_top_p = row.top_p < 1.0f;
    floor = row.min_p > 0 ? max + law::log(row.min_p) : minus_infinity();
    const float low = value_of_key(~state.low);
    bins = Bins(max, divides ? __fdiv_rn(low, temperature) : low);
  }
  /// Whether a logit's y lies in a bin up to this one.
  __device__ bool reaches(float x, int bin) const {
    const float y = divided(x);
    return y > minus_infinity() && bins(max - y) <= bin;
  }
  __device__ bool selects() const { return by_top_k || by_top_p; }
  __device__ float divided(float x) const { return divides ? __fdiv_rn(x, temperature) : x; }
  /// Weights of the histogram: masses when top-p acts alone, otherwise counts.
  __device__ bool weighs_mass() const { return by_top_p && !by_top_k; }
  /// Everything down to the boundary goes to the list: the total of top-p needs the exact survivors of top-k.
  __device__ bool lists_all() const { return by_top_k && by_top_p; }
};

/// One warp: the smallest logit for which `holds` is true, given that it is monotone and true for the logit of key
/// `best`. 31 ways per step, seven steps.
template <class F>
__device__ float least_logit(uint32_t best, F&& holds) {
  uint32_t low = kKeyOfNothing + 1, high = best;
  while (low < high) {
    const uint32_t step = (high - low) / 31 + 1;  // lane 31 is always at `high`
    const uint32_t key = low + min(step * (threadIdx.x % 32), high - low);
    const uint32_t first = static_cast<uint32_t>(__ffs(static_cast<int>(__ballot_sync(~0u, key == high || holds(value_of_key(key)))))) - 1;
    high = low + min(step * first, high - low);
    if (first > 0) low += step * (first - 1) + 1;
  }
  return value_of_key(high);
}

__device__ inline unsigned long long warp_max(unsigned long long v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = max(v, __shfl_xor_sync(~0u, v, step));
  return v;
}
__device__ inline unsigned long long warp_sum(unsigned long long v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}

/// 64-bit sums in shared memory from native 32-bit atomics: each wrap of the low word carries once.
struct WideCounters {
  uint32_t* low;
  uint32_t* high;
  __device__ void add(int i, unsigned long long v) const {
    const auto part = static_cast<uint32_t>(v);
    const uint32_t old = atomicAdd(&low[i], part);
    const uint32_t carry = static_cast<uint32_t>(v >> 32) + (old + part < old ? 1u : 0u);
    if (carry != 0) atomicAdd(&high[i], carry);
  }
  __device__ unsigned long long operator[](int i) const {
    return static_cast<unsigned long long>(high[i]) << 32 | low[i];
  }
};

/// Every thread of the block calls it.
struct BlockMax {
  unsigned long long part[kSampleWarps];
  /// The largest value, in thread 0.
  __device__ unsigned long long operator()(unsigned long long v) {
    v = warp_max(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) v = warp_max(threadIdx.x < kSampleWarps ? part[threadIdx.x] : 0);
    return v;
  }
};

__device__ inline void write_token(SampledToken* out, bool finite, int32_t token) {
  out->token = finite ? token : -1;
  out->non_finite = !finite;
  out->logprob = 0;
  out->top_count = 0;
}

__device__ inline bool in_vocab(int32_t token, int32_t vocab) { return static_cast<uint32_t>(token) < static_cast<uint32_t>(vocab); }

/// f(id, its uses word) for each history token, bias and suppressed id of the row that counts for it. A strided share of
/// the tokens; several loads are in flight.
template <class F>
__device__ void for_touched(const DeviceSampleRow& row, int32_t vocab, int32_t thread, int32_t threads, F&& f) {
  if (has_penalty(row)) {
    // the prompt counts for the repetition penalty alone
    const int32_t first = row.repetition_penalty != 1.0f ? 0 : row.prompt_tokens;
    const int32_t end = row.prompt_tokens + row.output_tokens;
    constexpr int kLoads = 4;
    for (int32_t i = first + thread; i < end; i += kLoads * threads) {
      int32_t token[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) token[k] = i + k * threads < end ? row.history[i + k * threads] : -1;
#pragma unroll
      for (int k = 0; k < kLoads; ++k)
        if (in_vocab(token[k], vocab)) f(token[k], i + k * threads < row.prompt_tokens ? kInPrompt : 1u);
    }
  }
  for (int32_t i = thread; i < row.bias_count + row.suppressed_count; i += threads) {
    const int32_t token = i < row.bias_count ? row.bias[i].token : row.suppressed[i - row.bias_count];
    if (in_vocab(token, vocab)) f(token, kListed);
  }
}

}  // namespace slipstream::cuda
