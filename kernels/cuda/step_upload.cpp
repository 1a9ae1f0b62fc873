// See step_upload.h.
#include "kernels/cuda/step_upload.h"

#include <algorithm>

#include "kernels/check.h"

namespace slipstream::cuda {
namespace {

size_t words_of(size_t rows, size_t spans, size_t groups, size_t stride) {
  return 3 * rows + 3 * spans + groups * spans * stride;
}

}  // namespace

StepUpload::~StepUpload() {
  for (Region& region : regions_) {
    if (region.host != nullptr) cudaFreeHost(region.host);
    if (region.copied != nullptr) cudaEventDestroy(region.copied);
  }
}

void StepUpload::grow(Region* region, size_t words) {
  if (region->words >= words) return;
  if (region->copied == nullptr)
    check(cudaEventCreateWithFlags(&region->copied, cudaEventDisableTiming), "cudaEventCreate");
  context_.synchronize();
  if (region->host != nullptr) cudaFreeHost(region->host);
  region->host = nullptr;
  region->words = std::max(words, 2 * region->words);
  check(cudaMallocHost(reinterpret_cast<void**>(&region->host), region->words * sizeof(int32_t)), "cudaMallocHost");
  region->device.reset();
  region->device = context_.allocate(region->words * sizeof(int32_t));
}

void StepUpload::reserve(int32_t max_rows, int32_t max_spans, int32_t groups, int32_t max_blocks) {
  for (Region& region : regions_)
    grow(&region, words_of(static_cast<size_t>(max_rows), static_cast<size_t>(max_spans), static_cast<size_t>(groups),
                           static_cast<size_t>(max_blocks)));
}

const StepView& StepUpload::upload(const StepInputs& step) {
  const size_t rows = static_cast<size_t>(step.rows), spans = step.spans.size(), groups = static_cast<size_t>(step.groups);
  size_t stride = 1;
  for (const SpanRows& span : step.spans) stride = std::max(stride, static_cast<size_t>(span.blocks));
  Region& region = regions_[next_++ % kRegions];
  const size_t words = words_of(rows, spans, groups, stride);
  grow(&region, words);
  check(cudaEventSynchronize(region.copied), "cudaEventSynchronize");

  int32_t* host = region.host;
  const int32_t* device = region.device.as<int32_t>();
  int32_t* const tokens = host;
  int32_t* const positions = tokens + rows;
  int32_t* const row_span = positions + rows;
  int32_t* const first_row = row_span + rows;
  int32_t* const span_rows = first_row + spans;
  int32_t* const context = span_rows + spans;
  int32_t* const tables = context + spans;
  if (step.token_ids != nullptr)
    std::copy_n(step.token_ids, rows, tokens);
  else
    std::fill_n(tokens, rows, 0);
  std::copy_n(step.positions, rows, positions);
  StepView view;
  for (size_t s = 0; s < spans; ++s) {
    const SpanRows& span = step.spans[s];
    first_row[s] = span.first_row, span_rows[s] = span.rows, context[s] = span.context;
    std::fill_n(row_span + span.first_row, span.rows, static_cast<int32_t>(s));
    for (size_t g = 0; g < groups; ++g)
      std::copy_n(span.block_tables[g], span.blocks, tables + (g * spans + s) * stride);
    const bool decodes = view.decode_spans == static_cast<int32_t>(s) && span.rows <= kMaxDecodeRows;
    int32_t& max_rows = decodes ? view.max_decode_rows : view.max_prefill_rows;
    int32_t& max_context = decodes ? view.max_context : view.max_prefill_context;
    if (decodes) ++view.decode_spans;
    max_rows = std::max(max_rows, span.rows);
    max_context = std::max(max_context, span.context + span.rows);
  }
  check(cudaMemcpyAsync(region.device.data(), host, words * sizeof(int32_t), cudaMemcpyHostToDevice, context_.stream()),
        "upload of a step");
  check(cudaEventRecord(region.copied, context_.stream()), "cudaEventRecord");

  view.rows = step.rows;
  view.spans = static_cast<int32_t>(spans);
  view.token_ids = device + (tokens - host);
  view.positions = device + (positions - host);
  view.row_span = device + (row_span - host);
  view.span_first_row = device + (first_row - host);
  view.span_rows = device + (span_rows - host);
  view.span_context = device + (context - host);
  view.block_tables = device + (tables - host);
  view.table_stride = static_cast<int32_t>(stride);
  view.max_spans = static_cast<int32_t>(spans);
  region.view = view;
  return region.view;
}

}  // namespace slipstream::cuda
