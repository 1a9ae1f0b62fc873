// See step_narrow.h. One block; a thread per row, then per span.
#include "kernels/cuda/step_narrow.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"

namespace slipstream::cuda {
namespace {

struct NarrowArgs {
  StepView from;
  int32_t* positions;
  int32_t* row_span;
  int32_t* span_first_row;
  int32_t* span_rows;
  int32_t* span_context;
  int32_t rows;
  int32_t ids[StepNarrow::kMaxRows];
};

__global__ void narrow_kernel(const __grid_constant__ NarrowArgs a) {
  __shared__ int32_t spans[StepNarrow::kMaxRows];  // of each row; -1 where the row does not run
  wait_for_inputs();
  for (int i = threadIdx.x; i < a.rows; i += blockDim.x) {
    const int32_t position = a.from.positions[a.ids[i]];
    spans[i] = position < 0 ? -1 : a.from.row_span[a.ids[i]];
    a.positions[i] = position;
    a.row_span[i] = max(spans[i], 0);
  }
  for (int s = threadIdx.x; s < a.from.spans; s += blockDim.x) a.span_first_row[s] = a.span_rows[s] = a.span_context[s] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < a.rows; i += blockDim.x) {
    const int32_t span = spans[i];
    if (span < 0 || span >= a.from.spans || (i > 0 && spans[i - 1] == span)) continue;
    int last = i;
    while (last + 1 < a.rows && spans[last + 1] == span) ++last;
    a.span_first_row[span] = i;
    a.span_rows[span] = last + 1 - i;
    a.span_context[span] = a.from.positions[a.ids[i]];
  }
}

}  // namespace

StepNarrow::StepNarrow(Context& context)
    : context_(context), arrays_(context.allocate((2 * kMaxRows + 3 * kMaxSpans) * sizeof(int32_t))) {}

const StepView& StepNarrow::build(const StepView& step, std::span<const int32_t> logit_rows) {
  CHECK(supports(step, logit_rows), "a step of too many logit rows to narrow");
  NarrowArgs args{};
  args.from = step;
  args.positions = arrays_.as<int32_t>();
  args.row_span = args.positions + kMaxRows;
  args.span_first_row = args.row_span + kMaxRows;
  args.span_rows = args.span_first_row + kMaxSpans;
  args.span_context = args.span_rows + kMaxSpans;
  args.rows = static_cast<int32_t>(logit_rows.size());
  std::copy(logit_rows.begin(), logit_rows.end(), args.ids);
  view_ = step;
  view_.rows = args.rows;
  view_.token_ids = nullptr;
  view_.positions = args.positions;
  view_.row_span = args.row_span;
  view_.span_first_row = args.span_first_row;
  view_.span_rows = args.span_rows;
  view_.span_context = args.span_context;
  // a prefill chunk has its last row at most, which its neighbours' kernel serves
  view_.decode_spans = step.spans;
  view_.max_decode_rows = step.spans > step.decode_spans ? std::max(step.max_decode_rows, 1) : step.max_decode_rows;
  view_.max_context = std::max(step.max_context, step.max_prefill_context);
  view_.max_prefill_rows = view_.max_prefill_context = 0;
  if (args.rows > 0) launch(context_, "narrow_step", narrow_kernel, dim3(1), dim3(256), 0, args);
  return view_;
}

}  // namespace slipstream::cuda
