// The kernels behind slots.h: commands and placing, settling, n-gram drafts. The rules are those of
// engine/run/device_slots.cpp, engine/spec/verifier.cpp and engine/spec/ngram_drafter.cpp.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/slots.h"

namespace slipstream::cuda {
namespace {

constexpr int kPlaceThreads = 128;
constexpr int kDraftThreads = 256;
constexpr int kDraftWindow = 8192;  // tokens in shared memory

/// Four loads in flight per thread.
__device__ void copy_words(int32_t* to, const int32_t* from, int32_t count) {
  const auto threads = static_cast<int32_t>(blockDim.x);
  for (int32_t i = threadIdx.x; i < count; i += 4 * threads) {
    int32_t word[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k * threads < count) word[k] = from[i + k * threads];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k * threads < count) to[i + k * threads] = word[k];
  }
}

// ---- place: grid (slots + 1), 128 threads. Block s carries out the commands of slot s, then lays out its span; the last
// block writes the padding. Bytes: those of the upload, 12 per row, 4 per table entry in use, 112 per logit row ----

/// What a block reads of its slot in one round, before anything depends on it. Shared memory.
struct SlotCopy {
  SlotState state;
  int32_t table_blocks[kMaxSlotGroups];
  int32_t drafts[kMaxSlotDrafts];
  SlotSpanRecord span;
};

struct Placing {
  const SlotMemory& memory;
  const SlotStep& step;
  int32_t slot;
  SlotCopy& own;
  SlotState& state;  // own.state

  __device__ int32_t* history() const { return memory.history + static_cast<int64_t>(slot) * memory.history_stride; }
  __device__ int32_t* table_blocks() const { return own.table_blocks; }
  __device__ int32_t* table(int32_t group) const {
    return memory.tables + (static_cast<int64_t>(slot) * memory.groups + group) * memory.max_blocks;
  }

  /// Every thread; ends with a barrier.
  __device__ void carry_out(const SlotCommand& command) const {
    const int32_t* const payload = step.blob + command.offset;
    switch (command.kind) {
      case SlotCommandKind::kOpen:
        copy_words(reinterpret_cast<int32_t*>(&state), payload, command.count);
        for (int32_t g = threadIdx.x; g < memory.groups; g += blockDim.x) table_blocks()[g] = 0;
        break;
      case SlotCommandKind::kHistory:
        copy_words(history() + command.a, payload, command.count);
        break;
      case SlotCommandKind::kStopIds:
        copy_words(memory.stop_ids + slot * kMaxSlotStopIds, payload, command.count);
        break;
      case SlotCommandKind::kBias:
        copy_words(reinterpret_cast<int32_t*>(memory.bias + slot * kMaxSlotBias), payload, command.count);
        break;
      case SlotCommandKind::kGrant: {
        const int32_t granted = table_blocks()[command.a];
        const int32_t count = min(command.count, memory.max_blocks - granted);
        copy_words(table(command.a) + granted, payload, count);
        __syncthreads();
        if (threadIdx.x == 0) table_blocks()[command.a] = granted + count;
        break;
      }
      case SlotCommandKind::kRelease:
        if (state.generation == static_cast<uint32_t>(command.a)) {
          for (int32_t g = threadIdx.x; g < memory.groups; g += blockDim.x) table_blocks()[g] = 0;
          __syncthreads();
          if (threadIdx.x == 0) state.open = 0, state.draft_count = 0;
        }
        break;
    }
    __syncthreads();
  }

  __device__ int32_t capacity() const {
    int32_t blocks = memory.max_blocks;
    for (int32_t g = 0; g < memory.groups; ++g) blocks = min(blocks, table_blocks()[g]);
    return blocks * memory.block_tokens;
  }

  /// Thread 0: what the span becomes. Drafts that it uses are appended to the history.
  __device__ SlotPlaced decide(const SlotSpanRecord& span) const {
    SlotPlaced placed{};
    placed.slot = slot;
    placed.generation = span.generation;
    placed.prefill = span.prefill;
    placed.first_logit = span.first_logit;
    placed.drafts_next = span.drafts_next;
    if (state.open == 0 || state.done != 0 || state.generation != span.generation) return placed;
    if (span.prefill != 0) {
      if (span.start != state.cached || span.start + span.rows > state.committed)
        placed.fault = SlotFault::kPrefillOrder;
      else if (span.start + span.rows > capacity())
        placed.fault = SlotFault::kPrefillCapacity;
      else if (span.logits != 0 && span.start + span.rows != state.committed)
        placed.fault = SlotFault::kEarlyLogits;
      if (placed.fault != SlotFault::kNone) return placed;
      placed.rows = span.rows;
      placed.logits = span.logits;
    } else {
      if (state.cached != state.committed - 1) {
        placed.fault = SlotFault::kNotPrefilled;
        return placed;
      }
      const int32_t* const drafts =
          span.supplied > 0 ? step.blob + span.supplied_offset : own.drafts;
      const int32_t count = span.supplied > 0 ? span.supplied : state.draft_count;
      // A draft past the budget could never be emitted, and has no block.
      const int32_t used = min(min(count, span.rows - 1), state.remaining - 1);
      if (state.cached + 1 + used > capacity()) {
        placed.starved = 1;
        return placed;
      }
      for (int32_t i = 0; i < used; ++i) history()[state.committed + i] = drafts[i];
      placed.rows = 1 + used;
      placed.drafts = used;
      placed.logits = placed.rows;
    }
    placed.runs = 1;
    return placed;
  }

  __device__ DeviceSampleRow law(int32_t i) const {
    DeviceSampleRow row;
    row.temperature = state.temperature;
    row.top_p = state.top_p;
    row.min_p = state.min_p;
    row.presence_penalty = state.presence_penalty;
    row.frequency_penalty = state.frequency_penalty;
    row.repetition_penalty = state.repetition_penalty;
    row.top_k = state.top_k;
    row.choice = state.choice;
    row.seed = static_cast<uint64_t>(state.seed_high) << 32 | state.seed_low;
    row.position = state.committed + i;
    row.top_logprobs = state.top_logprobs;
    row.bias = memory.bias + slot * kMaxSlotBias;
    row.bias_count = state.bias_count;
    if (state.emitted + i < state.min_tokens) {
      row.suppressed = memory.stop_ids + slot * kMaxSlotStopIds;
      row.suppressed_count = state.stop_count;
    }
    row.history = history();
    row.prompt_tokens = state.prompt_tokens;
    row.output_tokens = state.committed + i - state.prompt_tokens;
    return row;
  }

  /// Every thread.
  __device__ void lay_out(int32_t s, const SlotSpanRecord& span, const SlotPlaced& placed) const {
    const int32_t context = span.prefill != 0 ? span.start : state.cached;
    if (threadIdx.x == 0) {
      step.placed[s] = placed;
      step.span_first_row[s] = span.first_row;
      step.span_rows[s] = placed.rows;
      step.span_context[s] = placed.runs != 0 ? context : 0;
    }
    for (int32_t i = threadIdx.x; i < span.rows; i += blockDim.x) {
      const bool runs = i < placed.rows;
      step.token_ids[span.first_row + i] = runs ? history()[context + i] : 0;
      step.positions[span.first_row + i] = runs ? context + i : -1;
      step.row_span[span.first_row + i] = s;
    }
    for (int32_t i = threadIdx.x; i < span.logits; i += blockDim.x) {
      const bool runs = i < placed.logits;
      step.laws[span.first_logit + i] = runs ? law(i) : DeviceSampleRow{};
      step.logit_rows[span.first_logit + i] = span.first_row + (span.prefill != 0 ? span.rows - 1 : i);
    }
    if (placed.runs == 0) return;
    const int32_t blocks = (context + placed.rows + memory.block_tokens - 1) / memory.block_tokens;
    for (int32_t g = 0; g < memory.groups; ++g)
      copy_words(step.block_tables + (static_cast<int64_t>(g) * step.max_spans + s) * memory.max_blocks, table(g), blocks);
  }
};

__device__ const SlotHeader& header_of(const SlotStep& step) { return *reinterpret_cast<const SlotHeader*>(step.blob); }
__device__ const SlotWork* works_of(const SlotStep& step) {
  return reinterpret_cast<const SlotWork*>(step.blob + sizeof(SlotHeader) / sizeof(int32_t));
}
__device__ const SlotSpanRecord* spans_of(const SlotMemory& memory, const SlotStep& step) {
  return reinterpret_cast<const SlotSpanRecord*>(works_of(step) + memory.slots);
}

__device__ void pad(const SlotMemory& memory, const SlotStep& step, const SlotBounds& bounds) {
  const SlotHeader& header = header_of(step);
  for (int32_t r = header.rows + static_cast<int32_t>(threadIdx.x); r < bounds.rows; r += blockDim.x) {
    step.token_ids[r] = 0;
    step.positions[r] = -1;
    step.row_span[r] = 0;
  }
  for (int32_t r = header.logit_rows + static_cast<int32_t>(threadIdx.x); r < bounds.logit_rows; r += blockDim.x) {
    step.laws[r] = DeviceSampleRow{};
    step.logit_rows[r] = 0;
  }
  for (int32_t s = threadIdx.x; s < bounds.spans; s += blockDim.x) {
    if (s < header.spans && spans_of(memory, step)[s].slot >= 0) continue;
    SlotPlaced none{};
    none.slot = -1;
    step.placed[s] = none;
    step.span_first_row[s] = step.span_rows[s] = step.span_context[s] = 0;
  }
}

__global__ __launch_bounds__(kPlaceThreads) void place_kernel(SlotMemory memory, SlotStep step, SlotBounds bounds) {
  __shared__ SlotCopy own;
  __shared__ SlotPlaced placed;
  release_dependents();
  wait_for_inputs();
  const int32_t slot = blockIdx.x;
  if (slot == memory.slots) return pad(memory, step, bounds);
  const SlotWork work = works_of(step)[slot];
  if (work.commands == 0 && work.span < 0) return;
  constexpr int kStateWords = sizeof(SlotState) / sizeof(int32_t), kSpanWords = sizeof(SlotSpanRecord) / sizeof(int32_t);
  const bool has_span = work.span >= 0 && work.span < bounds.spans;
  const int32_t thread = static_cast<int32_t>(threadIdx.x), lane = thread % 32;
  // one warp each, so that the four loads overlap
  if (thread < 32 && lane < kStateWords)
    reinterpret_cast<int32_t*>(&own.state)[lane] = reinterpret_cast<const int32_t*>(&memory.state[slot])[lane];
  if (thread / 32 == 1 && has_span && lane < kSpanWords)
    reinterpret_cast<int32_t*>(&own.span)[lane] = reinterpret_cast<const int32_t*>(&spans_of(memory, step)[work.span])[lane];
  if (thread / 32 == 2 && lane < memory.groups) own.table_blocks[lane] = memory.table_blocks[slot * memory.groups + lane];
  if (thread / 32 == 3 && lane < kMaxSlotDrafts) own.drafts[lane] = memory.drafts[slot * kMaxSlotDrafts + lane];
  __syncthreads();
  const Placing placing{memory, step, slot, own, own.state};
  if (work.commands > 0) {
    const auto* commands = reinterpret_cast<const SlotCommand*>(step.blob + header_of(step).command_offset);
    for (int32_t c = 0; c < work.commands; ++c) placing.carry_out(commands[work.first_command + c]);
    copy_words(reinterpret_cast<int32_t*>(&memory.state[slot]), reinterpret_cast<const int32_t*>(&own.state), kStateWords);
    copy_words(memory.table_blocks + slot * memory.groups, own.table_blocks, memory.groups);
  }
  if (!has_span) return;
  if (threadIdx.x == 0) placed = placing.decide(own.span);
  __syncthreads();
  placing.lay_out(work.span, own.span, placed);
}

// ---- settle: grid (spans), one warp each; a few hundred bytes per span ----

__global__ __launch_bounds__(32) void settle_kernel(SlotMemory memory, SlotStep step) {
  const int32_t s = blockIdx.x;
  const auto lane = static_cast<int32_t>(threadIdx.x);
  release_dependents();
  wait_for_inputs();
  const SlotPlaced placed = step.placed[s];
  SlotResult result{};
  result.slot = placed.slot;
  result.generation = placed.generation;
  result.starved = placed.starved != 0;
  result.fault = placed.fault;
  int32_t wanted = 0;
  if (placed.runs != 0) {
    SlotState state = memory.state[placed.slot];
    int32_t* const history = memory.history + static_cast<int64_t>(placed.slot) * memory.history_stride + state.committed;
    const int32_t* const stop_ids = memory.stop_ids + placed.slot * kMaxSlotStopIds;
    if (placed.prefill != 0) state.cached += placed.rows;
    if (placed.logits > 0) {
      for (int32_t row = 0; row < placed.logits; ++row) {
        const SampledToken& drawn = step.drawn[placed.first_logit + row];
        const int32_t token = drawn.token;
        if (drawn.non_finite || token < 0) {
          result.done = SlotDone::kNonFinite;
          break;
        }
        const bool agrees = row < placed.drafts && history[row] == token;
        result.tokens[result.emitted++] = token;
        if (agrees) ++result.accepted;
        bool stops = false;
        for (int32_t i = lane; i < state.stop_count; i += 32) stops |= stop_ids[i] == token;
        if (__any_sync(~0u, stops)) {
          result.done = SlotDone::kStopId;
          break;
        }
        if (result.emitted >= state.remaining) {
          result.done = SlotDone::kLength;
          break;
        }
        if (!agrees) break;
      }
      __syncwarp();
      for (int32_t i = lane; i < result.emitted; i += 32) history[i] = step.drawn[placed.first_logit + i].token;
      state.committed += result.emitted;
      state.cached = state.committed - 1;
      state.emitted += result.emitted;
      state.remaining -= result.emitted;
      state.done = result.done != SlotDone::kNone;
      state.draft_count = 0;
      result.drafted = placed.drafts;
      result.non_finite = result.done == SlotDone::kNonFinite;
      if (state.done == 0) wanted = max(0, min(min(placed.drafts_next, memory.max_drafts), state.remaining - 1));
    }
    if (lane == 0) memory.state[placed.slot] = state;
  }
  if (lane == 0) {
    step.results[s] = result;
    step.placed[s].drafts_wanted = wanted;
  }
}

// ---- n-gram drafts: grid (spans), 256 threads, 32 KB shared; 4 bytes per token of the window ----

__global__ __launch_bounds__(kDraftThreads) void ngram_kernel(SlotMemory memory, SlotStep step, int32_t min_n, int32_t max_n,
                                                              int32_t window) {
  __shared__ int32_t text[kDraftWindow];
  __shared__ unsigned long long best;
  release_dependents();
  wait_for_inputs();
  const SlotPlaced& placed = step.placed[blockIdx.x];
  const int32_t wanted = placed.drafts_wanted;
  if (wanted <= 0) return;
  SlotState& state = memory.state[placed.slot];
  const int32_t size = min(state.committed, window);
  if (size < min_n + 1) return;
  copy_words(text, memory.history + static_cast<int64_t>(placed.slot) * memory.history_stride + state.committed - size, size);
  if (threadIdx.x == 0) best = 0;
  __syncthreads();
  // The longest agreement with the suffix wins, then the latest end.
  unsigned long long own = 0;
  for (int32_t end = min_n + static_cast<int32_t>(threadIdx.x); end < size; end += kDraftThreads) {
    int32_t agree = 0;
    while (agree < max_n && agree < end && text[end - 1 - agree] == text[size - 1 - agree]) ++agree;
    if (agree >= min_n) own = max(own, static_cast<unsigned long long>(agree) << 32 | static_cast<uint32_t>(end));
  }
  if (own != 0) atomicMax(&best, own);
  __syncthreads();
  if (best == 0) return;
  const auto end = static_cast<int32_t>(static_cast<uint32_t>(best));
  const int32_t count = min(wanted, size - end);
  copy_words(memory.drafts + placed.slot * kMaxSlotDrafts, text + end, count);
  SlotResult& result = step.results[blockIdx.x];
  copy_words(result.drafts, text + end, count);
  if (threadIdx.x == 0) state.draft_count = result.draft_count = count;
}

static_assert(sizeof(SlotState) <= 128 && sizeof(SlotSpanRecord) <= 128, "a warp reads each in one round");

}  // namespace

void ResidentSlots::place(const SlotBounds& bounds) {
  launch(context_, "place_kernel", place_kernel, dim3(static_cast<unsigned>(shape_.slots + 1)), dim3(kPlaceThreads), 0, memory_, step_, bounds);
}

void ResidentSlots::settle(const SlotBounds& bounds) {
  if (bounds.spans == 0) return;
  launch(context_, "settle_kernel", settle_kernel, dim3(static_cast<unsigned>(bounds.spans)), dim3(32), 0, memory_, step_);
}

void ResidentSlots::draft_ngram(const SlotBounds& bounds, int32_t min_n, int32_t max_n, int32_t window) {
  CHECK(1 <= min_n && min_n <= max_n && max_n < window && window <= kDraftWindow, "n-gram lengths");
  if (bounds.spans == 0) return;
  launch(context_, "ngram_kernel", ngram_kernel, dim3(static_cast<unsigned>(bounds.spans)), dim3(kDraftThreads), 0, memory_, step_, min_n, max_n, window);
}

}  // namespace slipstream::cuda
