// Finding the boundary of top-k and top-p without sorting: first its bin in a row's histogram, then its exact key (and,
// for ties of top-k, id) by radix selection over candidates. Private to sample.cu.
#pragma once

#include "kernels/cuda/sample_row.cuh"

namespace slipstream::cuda {

__constant__ law::ExpTable device_exp_table = law::make_exp_table();

/// Into shared memory, where entry i is in bank i: no two lanes ever collide.
__device__ inline void load_exp_table(uint32_t* shared) {
  if (threadIdx.x < 32) shared[threadIdx.x] = device_exp_table.value[threadIdx.x];
}

struct Boundary {
  int bin;                   // the first bin with which the weight is reached; kBins if it never is
  unsigned long long above;  // weight of the bins before it
};

/// Every thread of the block calls it and gets the same answer.
struct BoundarySearch {
  unsigned long long part[kSampleWarps];
  Boundary found;

  /// The class that brings the count to k; none when there are no more than k.
  template <class T>
  __device__ Boundary by_count(const T* weights, int32_t k) {
    return search(weights, [&](unsigned long long total) {
      return total > static_cast<unsigned long long>(k) ? static_cast<unsigned long long>(k) : ~0ull;
    });
  }
  __device__ Boundary by_mass(const unsigned long long* weights, float p) {
    return search(weights, [&](unsigned long long total) {
      return max(1ull, static_cast<unsigned long long>(law::top_p_need(p, total)));
    });
  }

 private:
  template <class T, class Need>
  __device__ Boundary search(const T* weights, Need need_of) {
    constexpr int kEach = kBins / kSampleThreads;
    unsigned long long own[kEach], sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += own[i] = weights[threadIdx.x * kEach + i];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned long long before = sum;  // inclusive over the warp, then made exclusive
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const unsigned long long other = __shfl_up_sync(~0u, before, step);
      if (lane >= step) before += other;
    }
    __syncthreads();
    if (lane == 31) part[warp] = before;
    if (threadIdx.x == 0) found = {kBins, 0};
    __syncthreads();
    before -= sum;
    unsigned long long total = 0;
#pragma unroll
    for (int w = 0; w < kSampleWarps; ++w) {
      if (w < warp) before += part[w];
      total += part[w];
    }
    const unsigned long long need = need_of(total);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (before < need && before + own[i] >= need) found = {static_cast<int>(threadIdx.x) * kEach + i, before};
      before += own[i];
    }
    __syncthreads();
    return found;
  }
};

/// Order of the draw: higher key first, lower id first among equals. 32 + 24 bits.
__device__ inline unsigned long long composite(uint32_t key, int32_t token) {
  return static_cast<unsigned long long>(key) << 24 | static_cast<unsigned long long>(0xFFFFFF - token);
}

/// Radix selection over 8-bit digits, highest first. Every thread of the block calls it.
struct Selection {
  uint32_t low[256], high[256];
  unsigned long long total;
  unsigned long long left;    // weight still wanted inside the prefix
  unsigned long long bucket;  // weight of the digit chosen
  uint32_t digit;

  __device__ void total_of(const unsigned long long* weights) {
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    unsigned long long sum = 0;
    for (int i = threadIdx.x; i < kBins; i += kSampleThreads) sum += weights[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, sum);
    __syncthreads();
  }
  /// Sum of mass(key) over candidates at or above `least`.
  template <class C, class Mass>
  __device__ unsigned long long sum(const C& candidates, unsigned long long least, Mass mass) {
    __syncthreads();
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    unsigned long long sum = 0;
    candidates.for_each([&](uint32_t key, int32_t token) {
      if (composite(key, token) >= least) sum += mass(key);
    });
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, sum);
    __syncthreads();
    return total;
  }
  /// The composite that exactly `count` candidates reach; there are at least that many.
  template <class C>
  __device__ unsigned long long by_count(const C& candidates, unsigned long long count) {
    return run<true>(candidates, count, 0, [](uint32_t) { return 1ull; });
  }
  /// The lowest composite of the key class with which the mass of candidates at or above `least` reaches `need`.
  template <class C, class Mass>
  __device__ unsigned long long by_mass(const C& candidates, unsigned long long need, unsigned long long least, Mass mass) {
    return run<false>(candidates, need, least, mass);
  }

 private:
  template <bool kCount, class C, class Weight>
  __device__ unsigned long long run(const C& candidates, unsigned long long need, unsigned long long least, Weight weight) {
    constexpr int kLastShift = kCount ? 0 : 24;  // mass is decided by keys alone
    const WideCounters counters{low, high};
    unsigned long long prefix = 0;
    for (int shift = 48; shift >= kLastShift; shift -= 8) {
      __syncthreads();
      for (int i = threadIdx.x; i < 256; i += kSampleThreads) low[i] = high[i] = 0;
      if (threadIdx.x == 0) left = shift == 48 ? need : left;
      __syncthreads();
      candidates.for_each([&](uint32_t key, int32_t token) {
        const unsigned long long c = composite(key, token);
        if (c < least || c >> (shift + 8) != prefix) return;
        const int digit = static_cast<int>(c >> shift & 255);
        if constexpr (kCount)
          atomicAdd(&low[digit], 1u);
        else
          counters.add(digit, weight(key));
      });
      __syncthreads();
      if (threadIdx.x < 32) choose_digit(counters);
      __syncthreads();
      prefix = prefix << 8 | digit;
      // all of the bucket is wanted: the digits below do not matter
      if (kCount && bucket == left) return prefix << shift;
    }
    return prefix << kLastShift;
  }
  /// One warp: the highest digit with which the wanted weight is reached. Lane l has digits 255 - 8 l and down.
  __device__ void choose_digit(const WideCounters& counters) {
    const int top = 255 - 8 * static_cast<int>(threadIdx.x);
    unsigned long long sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += counters[top - i];
    unsigned long long before = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const unsigned long long other = __shfl_up_sync(~0u, before, step);
      if (static_cast<int>(threadIdx.x) >= step) before += other;
    }
    before -= sum;
    const unsigned long long wanted = left;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const unsigned long long weight = counters[top - i];
      if (before < wanted && before + weight >= wanted) {
        digit = static_cast<uint32_t>(top - i);
        bucket = weight;
        left = wanted - before;
      }
      before += weight;
    }
    __syncwarp();
  }
};

}  // namespace slipstream::cuda
