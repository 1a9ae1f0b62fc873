// Device-resident sequence state: history, lengths, drafts, budgets, laws and block tables of every slot live on the GPU,
// so that a whole step (place, forward, sample, settle, draft) is launches only and the host never waits inside it. The
// device twin of engine/run/device_slots.h, which stays the readable specification and the test's oracle. Owns the slots'
// memory, the step's arrays and the staging; knows ids and lengths, no model and no scheduler.
//
// One step, in stream order (the bracketed part may be a captured graph):
//
//   open / grant / release        host: packed into staging, in the plan's order
//   plan(spans)                   host: checks what the host can know, packs
//   upload()                      one asynchronous copy (more only when openings bring more than the staging holds)
//   [ place(bounds)               slot commands, then rows, block tables, laws: view(), laws(), logit_rows()
//     … forward, gather, head …
//     sample into drawn()
//     settle(bounds)              verification, slot update, results
//     draft_ngram(bounds, …) ]    proposals for the next step, where the plan asked for them
//   fetch(logprobs)               one asynchronous copy of the results, and an event
//   … later: wait(ticket)         the only wait
//
// At most kInFlight fetches may be unread. Token masks are no part of the laws that place writes: they come later, and
// TokenMasks (token_masks.h) puts them in between place and sample.
// Measured on one H200 (bench_slots, graph replays, launch of the graph included): place 5.7 us for one slot, 6.1 us for 64
// at 1,000 tokens, 9 us for 256 at 8,000; settle 2.4 us; n-gram drafts 1.3 us without, about 9 us with a full window to
// search. Host: plan and upload 3.5 us for one span, 4.8 us for 64; fetch 1.7 us.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/cuda/step_view.h"

namespace slipstream::cuda {

struct SlotShape {
  int32_t slots = 16;
  int32_t groups = 1;          // cache groups: columns of a block table
  int32_t block_tokens = 32;
  int32_t max_blocks = 128;    // of one sequence in one group
  int32_t max_tokens = 4096;   // prompt and output of one sequence
  int32_t max_rows = 512;      // of the largest step, padding included
  int32_t max_spans = 16;
  int32_t max_logit_rows = 16;
  int32_t max_drafts = 0;      // <= kMaxSlotDrafts
};

/// A slot made ready for a sequence (the engine's OpenSlot). Everything is copied.
struct SlotOpening {
  int32_t slot = 0;
  uint32_t generation = 0;
  int32_t choice = 0;
  std::span<const int32_t> history;      // prompt, then tokens generated before a preemption
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t remaining_tokens = 0;
  int32_t emitted_tokens = 0;
  float temperature = 1, top_p = 1, min_p = 0;
  float presence_penalty = 0, frequency_penalty = 0, repetition_penalty = 1;
  int32_t top_k = 0;
  int32_t top_logprobs = -1;
  int32_t min_tokens = 0;
  uint64_t seed = 0;
  std::span<const LogitBias> bias;       // at most kMaxSlotBias
  std::span<const int32_t> stop_ids;     // at most kMaxSlotStopIds
};

/// One span of a step. Rows and logit rows are the host's prefix sums over upper bounds: span s has rows
/// [first_row, first_row + rows) and logit rows [first_logit, first_logit + logits), whatever runs of them.
struct SlotSpan {
  int32_t slot = -1;           // -1: no span stands here (graph padding); the other fields are not read
  uint32_t generation = 0;
  bool prefill = false;        // otherwise decode or verify
  int32_t start = 0;           // prefill: position of the first row; otherwise not read
  int32_t rows = 0;            // prefill: chunk; otherwise 1 + at most rows - 1 drafts
  int32_t logits = 0;          // prefill: 0 or 1 (the last row); otherwise rows
  int32_t first_row = 0;
  int32_t first_logit = 0;
  int32_t drafts_next = 0;     // drafts to propose after settle
  std::span<const int32_t> supplied_drafts;  // verified in place of the slot's own when not empty
};

/// The launch bounds of a step: at least what its plan needs; a graph's key.
struct SlotBounds {
  int32_t rows = 0;
  int32_t spans = 0;
  int32_t logit_rows = 0;
};

/// Worker thread of its rank only. What a plan asks wrongly is a DeviceError: at once where the host can know it,
/// otherwise (lengths, capacity) when its result is waited for.
class ResidentSlots {
 public:
  static constexpr int kInFlight = 4;

  /// Allocates everything. Throws DeviceError when the memory is refused.
  ResidentSlots(Context& context, const SlotShape& shape);
  ~ResidentSlots();
  ResidentSlots(const ResidentSlots&) = delete;
  ResidentSlots& operator=(const ResidentSlots&) = delete;
  static size_t device_bytes(const SlotShape& shape);

  void open(const SlotOpening& opening);
  /// Appends block ids to one column of the slot's table.
  void grant(int32_t slot, int32_t group, std::span<const int32_t> blocks);
  void release(int32_t slot, uint32_t generation);
  /// The step's spans, after its commands: at most one per slot; rows and logit rows cover [0, n) in order. Decode spans
  /// stand before prefill spans.
  void plan(std::span<const SlotSpan> spans);
  void upload();

  // Capturable: launches on the context's stream, arguments depend on the bounds alone.
  /// Rows past the plan's get position -1; so do all rows of a span whose slot is stale, done or starved.
  void place(const SlotBounds& bounds);
  /// Reads drawn(): row first_logit + i of each span.
  void settle(const SlotBounds& bounds);
  /// Prompt look-up, the rule of engine/spec/ngram_drafter.h; after settle. Without it slots have no drafts.
  void draft_ngram(const SlotBounds& bounds, int32_t min_n, int32_t max_n, int32_t window);

  /// The device arrays that place fills. The caller sets decode_spans and the max_ bounds. table_stride is max_blocks.
  StepView view(const SlotBounds& bounds) const;
  DeviceSampleRow* laws() const { return step_.laws; }             // [max_logit_rows]
  const int32_t* logit_rows() const { return step_.logit_rows; }   // [max_logit_rows] rows whose logits are wanted; 0 for padding
  SampledToken* drawn() const { return step_.drawn; }              // [max_logit_rows]

  /// What came of a step. Pointers stay valid until kInFlight - 1 more fetches.
  struct Results {
    std::span<const SlotResult> spans;      // beside the plan's
    std::span<const SampledToken> drawn;    // beside the logit rows; empty without logprobs
  };
  /// Starts the copy of the last settled step's results; `logprobs` brings the draws too. A ticket for wait.
  int fetch(bool logprobs);
  bool ready(int ticket) const;
  /// Throws DeviceError for a step that the slots could not honour.
  Results wait(int ticket);

 private:
  struct Staging {
    int32_t* words = nullptr;  // pinned
    cudaEvent_t copied = nullptr;
  };
  struct Landing {
    SlotResult* spans = nullptr;    // pinned, [max_spans]
    SampledToken* drawn = nullptr;  // pinned, [max_logit_rows]
    int32_t span_count = 0, drawn_count = 0;
    cudaEvent_t landed = nullptr;
  };
  struct Command {
    SlotCommand record;
    int32_t slot = 0;
  };

  void require_slot(int32_t slot) const;
  /// Room for a payload of so many words; flushes what is pending when there is none.
  int32_t* payload(size_t words, int32_t* offset);
  void add_words(int32_t slot, SlotCommandKind kind, int32_t first, const void* data, size_t words);
  void begin_staging();
  void send();

  Context& context_;
  const SlotShape shape_;
  Buffer device_;
  SlotMemory memory_{};
  SlotStep step_{};
  std::array<Staging, kInFlight> staging_;
  std::array<Landing, kInFlight> landings_;
  size_t next_staging_ = 0, next_landing_ = 0;
  size_t payload_used_ = 0;
  std::vector<Command> commands_;
  std::vector<SlotSpanRecord> spans_;
  std::vector<int32_t> blocks_granted_;  // [slots, groups]
  std::vector<int32_t> span_of_slot_;    // [slots]
  int32_t rows_ = 0, logit_rows_ = 0;           // of the plan being packed
  int32_t span_count_ = 0, logit_count_ = 0;     // of the plan uploaded last
};

}  // namespace slipstream::cuda
