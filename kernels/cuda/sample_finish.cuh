// The last phase of a draw: the exact boundary by selection over candidates, the token, its logprobs and the clean-up of the
// row's scratch. Private to sample.cu.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sample_row.cuh"
#include "kernels/cuda/sample_select.cuh"

namespace slipstream::cuda {

// ---- finish: grid (rows), 512 threads; reads the lists, or the row again where a list overflowed ----

/// What a selection runs over: a row's list or, where it overflowed, the bins [first_bin, last_bin] of the row itself.
/// f(key, token) for each.
struct Candidates {
  const unsigned long long* list;
  int32_t count;
  const RowValues<false>* values;
  const RowDraw* draw;  // null: raw logits
  Bins bins;
  float max;
  int first_bin, last_bin;

  template <class F>
  __device__ void for_each(F&& f) const {
    if (count <= kListEntries) {
      for (int32_t i = threadIdx.x; i < count; i += kSampleThreads) f(key_of(list[i]), token_of(list[i]));
      return;
    }
    for (int32_t token = threadIdx.x; token < values->vocab; token += kSampleThreads) {
      const float y = draw != nullptr ? draw->divided(values->modified_logit(token)) : values->logits[token];
      if (!(y > minus_infinity())) continue;
      const int bin = bins(max - y);
      if (bin >= first_bin && bin <= last_bin) f(law::order_key(y), token);
    }
  }
};

__device__ inline int32_t draw_among_candidates(const SamplePass& pass, int32_t r, const DeviceSampleRow& row, const RowDraw& draw,
                                         const RowValues<false>& values, Selection& select, BlockMax& reduce,
                                         const uint32_t* exp_table) {
  const SampleState& state = pass.state[r];
  const Candidates all{pass.list + static_cast<int64_t>(r) * kListEntries, state.list_count, &values, &draw,
                                 draw.bins, draw.max, draw.lists_all() ? 0 : state.boundary, state.boundary};
  const auto mass = [&](uint32_t key) { return law::mass_from(exp_table, value_of_key(key) - draw.max); };
  unsigned long long least = 0;  // composite that a survivor reaches
  if (draw.weighs_mass()) {
    if (state.boundary < kBins) {
      const unsigned long long total = select.total;
      const unsigned long long need = max(1ull, static_cast<unsigned long long>(law::top_p_need(row.top_p, total)));
      least = select.by_mass(all, need - state.above, 0, mass);
    }
  } else {
    if (state.boundary < kBins)
      least = select.by_count(all, static_cast<unsigned long long>(row.top_k) - (draw.lists_all() ? 0 : state.above));
    if (draw.by_top_p) {
      const unsigned long long total = select.sum(all, least, mass);
      const unsigned long long need = max(1ull, static_cast<unsigned long long>(law::top_p_need(row.top_p, total)));
      least = max(least, select.by_mass(all, need, least, mass));
    }
  }
  unsigned long long drawn = 0;
  all.for_each([&](uint32_t key, int32_t token) {
    const float y = value_of_key(key);
    if (composite(key, token) < least || !(y >= draw.floor)) return;
    drawn = max(drawn, packed(law::order_key(y + law::token_noise(row.seed, row.choice, row.position, token)), token));
  });
  drawn = reduce(drawn);  // in thread 0
  return token_of(max(drawn, state.drawn));
}

/// Thread 0 has written the token; the N best raw logits follow, best first.
__device__ inline void write_logprobs(const SamplePass& pass, int32_t r, const DeviceSampleRow& row,
                               const RowValues<false>& values, Selection& select, SampledToken* out) {
  __shared__ unsigned long long tops[kMaxTopLogprobs];
  __shared__ int32_t top_count;
  const SampleState& state = pass.state[r];
  const float max = values.logits[token_of(state.raw_best)];
  const float log_sum = law::log_mass(state.raw_mass);
  if (threadIdx.x == 0) out->logprob = (values.logits[out->token] - max) - log_sum;
  const int32_t wanted = min(row.top_logprobs, kMaxTopLogprobs);
  if (wanted == 0) return;
  const Candidates all{pass.raw_list + static_cast<int64_t>(r) * kListEntries, state.raw_list_count, &values, nullptr,
                                 Bins(max, value_of_key(~state.raw_low)), max, 0, state.raw_boundary};
  const unsigned long long least = state.raw_boundary < kBins ? select.by_count(all, static_cast<unsigned long long>(wanted)) : 0;
  if (threadIdx.x == 0) top_count = 0;
  __syncthreads();
  all.for_each([&](uint32_t key, int32_t token) {
    if (composite(key, token) < least) return;
    const int32_t at = atomicAdd(&top_count, 1);
    if (at < kMaxTopLogprobs) tops[at] = packed(key, token);
  });
  __syncthreads();
  const int32_t count = min(top_count, wanted);
  if (threadIdx.x == 0) out->top_count = count;
  if (static_cast<int32_t>(threadIdx.x) >= count) return;
  int32_t rank = 0;
  for (int32_t i = 0; i < count; ++i) rank += tops[i] > tops[threadIdx.x];
  const int32_t token = token_of(tops[threadIdx.x]);
  out->top_ids[rank] = token;
  out->top_logprobs[rank] = (values.logits[token] - max) - log_sum;
}

static __global__ __launch_bounds__(kSampleThreads, 1) void finish_kernel(SamplePass pass) {
  __shared__ BlockMax reduce;
  __shared__ Selection select;
  __shared__ uint32_t exp_table[32];
  load_exp_table(exp_table);
  release_dependents();
  wait_for_inputs();
  const int32_t r = blockIdx.x;
  const DeviceSampleRow row = pass.row[r];
  if (row.position < 0) return;
  __syncthreads();
  const SampleState& state = pass.state[r];
  const RowDraw draw(row, state, pass.vocab);
  const RowValues<false> values(pass, r, row);
  SampledToken* const out = &pass.out[r];
  int32_t token = token_of(state.best);
  if (draw.selects()) {
    if (draw.weighs_mass()) select.total_of(pass.weights + static_cast<int64_t>(r) * kBins);
    token = draw_among_candidates(pass, r, row, draw, values, select, reduce, exp_table);
  } else if (draw.by_noise) {
    token = token_of(state.drawn);
  }
  if (threadIdx.x == 0) write_token(out, draw.finite, token);
  if (draw.finite && row.top_logprobs >= 0) write_logprobs(pass, r, row, values, select, out);
  __syncthreads();
  uint32_t* const touched = pass.touched + static_cast<int64_t>(r) * ((pass.vocab + 31) / 32);
  uint32_t* const uses = pass.uses + static_cast<int64_t>(r) * pass.vocab;
  for_touched(row, pass.vocab, threadIdx.x, kSampleThreads, [&](int32_t id, uint32_t) { touched[id >> 5] = uses[id] = 0; });
}

}  // namespace slipstream::cuda
