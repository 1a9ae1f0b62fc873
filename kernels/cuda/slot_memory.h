// The plain data that host and device share about slots: states, commands, spans, results, and where each array lies.
// Passed to kernels by value. Knows no stream and no rule.
#pragma once

#include <cstdint>

#include "kernels/cuda/sample.h"

namespace slipstream::cuda {

inline constexpr int32_t kMaxSlotDrafts = 16;
inline constexpr int32_t kMaxSlotStopIds = 128;
inline constexpr int32_t kMaxSlotBias = 1024;
inline constexpr int32_t kMaxSlotGroups = 16;  // cache groups

struct SlotState {
  uint32_t generation;
  int32_t open;
  int32_t done;
  int32_t choice;
  int32_t prompt_tokens;
  int32_t committed;    // tokens of history that stand
  int32_t cached;       // of them, those whose K/V is written; decode: committed - 1
  int32_t emitted;      // output tokens, those before a preemption included
  int32_t remaining;    // output budget
  int32_t draft_count;  // proposed after the last settle
  int32_t min_tokens;
  int32_t stop_count;
  int32_t bias_count;
  int32_t top_k;
  int32_t top_logprobs;
  float temperature, top_p, min_p;
  float presence_penalty, frequency_penalty, repetition_penalty;
  uint32_t seed_low, seed_high;
};

enum class SlotCommandKind : int32_t { kOpen, kHistory, kStopIds, kBias, kGrant, kRelease };

struct SlotCommand {
  SlotCommandKind kind;
  int32_t a;       // kHistory: first token; kGrant: group; kRelease: generation
  int32_t count;   // words of payload
  int32_t offset;  // of the payload in the blob's words
};

struct SlotSpanRecord {
  int32_t slot;  // -1: none
  uint32_t generation;
  int32_t prefill;
  int32_t start, rows, logits, first_row, first_logit;
  int32_t drafts_next;
  int32_t supplied;         // count
  int32_t supplied_offset;  // words
};

/// What the device does for one slot this step.
struct SlotWork {
  int32_t first_command, commands;
  int32_t span;  // -1: none
};

/// The upload, in words: header, SlotWork [slots], SlotSpanRecord [max_spans], payload, commands (right behind what of
/// the payload is used).
struct SlotHeader {
  int32_t spans, rows, logit_rows;
  int32_t command_offset;  // words
};

enum class SlotFault : uint8_t {
  kNone,
  kPrefillOrder,     // a prefill chunk does not continue the slot
  kPrefillCapacity,  // a prefill chunk passes the granted blocks
  kEarlyLogits,      // logits before the last token
  kNotPrefilled,     // decode of a slot that is not prefilled
};

/// As the engine's DoneReason.
enum class SlotDone : uint8_t { kNone, kStopId, kLength, kNonFinite };

struct SlotResult {
  int32_t slot;  // -1: no span stood here
  uint32_t generation;
  int32_t emitted;
  int32_t drafted;
  int32_t accepted;
  SlotDone done;
  bool non_finite;
  bool starved;
  SlotFault fault;
  int32_t tokens[kMaxSlotDrafts + 1];  // [emitted]
  int32_t draft_count;
  int32_t drafts[kMaxSlotDrafts];      // [draft_count] proposed behind this step, for hosts that mask the rows which verify them
};

/// What place made of a span, for settle.
struct SlotPlaced {
  int32_t slot;  // -1: none
  uint32_t generation;
  int32_t runs;
  int32_t starved;
  int32_t prefill;
  int32_t rows;
  int32_t drafts;
  int32_t logits;
  int32_t first_logit;
  int32_t drafts_next;
  int32_t drafts_wanted;  // written by settle
  SlotFault fault;
};

/// The slots for good.
struct SlotMemory {
  SlotState* state;        // [slots]
  int32_t* history;        // [slots, history_stride]
  int32_t* drafts;         // [slots, kMaxSlotDrafts]
  int32_t* stop_ids;       // [slots, kMaxSlotStopIds]
  LogitBias* bias;         // [slots, kMaxSlotBias]
  int32_t* tables;         // [slots, groups, max_blocks]
  int32_t* table_blocks;   // [slots, groups] granted
  int32_t slots, groups, max_blocks, block_tokens, history_stride, max_drafts;
};

/// The arrays of one step.
struct SlotStep {
  const int32_t* blob;     // SlotHeader and the rest
  int32_t* token_ids;      // [max_rows]
  int32_t* positions;      // [max_rows]
  int32_t* row_span;       // [max_rows]
  int32_t* span_first_row; // [max_spans]
  int32_t* span_rows;      // [max_spans]
  int32_t* span_context;   // [max_spans]
  int32_t* block_tables;   // [groups, max_spans, max_blocks]
  int32_t* logit_rows;     // [max_logit_rows]
  DeviceSampleRow* laws;   // [max_logit_rows]
  SampledToken* drawn;     // [max_logit_rows]
  SlotPlaced* placed;      // [max_spans]
  SlotResult* results;     // [max_spans]
  int32_t max_spans;
};

}  // namespace slipstream::cuda
