// A step's rows as kernels see them: device arrays, filled from the host's StepInputs or by the device's own slots.
// Passed to kernels by value. Knows no model and no slot.
#pragma once

#include <cstdint>

namespace slipstream::cuda {

/// The spans of a step come in two runs, each served by its own kernels. Upper bounds.
struct StepRuns {
  // Spans [0, decode_spans) have at most max_decode_rows (<= 16) rows each, the rest are prefill chunks.
  int32_t decode_spans = 0;
  int32_t max_decode_rows = 0;
  int32_t max_context = 0;                 // over the decode spans, rows included: bounds the split plan
  int32_t max_prefill_rows = 0;
  int32_t max_prefill_context = 0;         // over the prefill spans, rows included
};

/// Host numbers are upper bounds that shape the launch; what runs is in the arrays. A row whose position is -1 and a span
/// of 0 rows do nothing: kernels neither read nor write caches for them, and may leave their outputs as they are.
struct StepView : StepRuns {
  int32_t rows = 0;                        // launch bound
  int32_t spans = 0;                       // launch bound
  const int32_t* token_ids = nullptr;      // [rows]; in range, or clamped by the kernel that reads them
  const int32_t* positions = nullptr;      // [rows]
  const int32_t* row_span = nullptr;       // [rows] index of the row's span
  const int32_t* span_first_row = nullptr; // [spans]
  const int32_t* span_rows = nullptr;      // [spans] rows that run
  const int32_t* span_context = nullptr;   // [spans] tokens before the first row: row i has position context + i
  const int32_t* block_tables = nullptr;   // [groups, spans, table_stride] block ids of span s in group g
  int32_t table_stride = 0;
  int32_t max_spans = 0;                   // the second dimension of block_tables
};

}  // namespace slipstream::cuda
