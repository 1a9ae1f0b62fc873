// The sampling entry points of the host backends. Both give the same bits (tests/ops/test_sample.cpp).
#pragma once

#include "kernels/sample.h"

namespace slipstream {

class ThreadPool;

/// Scalar, one row after the other, by sorting: the oracle. Any thread.
void reference_sample(const SampleBatch& batch);

/// Vectorised, histograms instead of sorting, rows spread over the pool. The pool's caller thread only.
void cpu_sample(const SampleBatch& batch, ThreadPool& pool);

/// One row of cpu_sample. `vector` false takes the portable path. Any thread.
void cpu_sample_row(const float* logits, int32_t vocab, const SampleRow& row, bool vector, SampledToken* out);

}  // namespace slipstream
