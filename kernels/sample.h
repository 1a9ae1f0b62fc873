// Sampling as a pure function of FP32 logits: bit-equal logits give the same token on every backend, shard and
// device. The rules are fixed in engine/README.md ("Sampler"); the arithmetic is in kernels/law.h.
//
// Order: mask, logit bias, min_tokens; repetition, frequency, presence penalties; IEEE division by T; top-k;
// top-p over the survivors; min-p; then argmax of value + Gumbel noise. T = 0 or top_k = 1 is argmax.
// Ties go to the lower id.
#pragma once

#include <cstdint>
#include <span>

namespace slipstream {

inline constexpr int kMaxTopLogprobs = 20;

struct LogitBias {
  int32_t token = 0;
  float bias = 0;
};

/// One row's law. Borrowed pointers stay valid for the call.
struct SampleRow {
  float temperature = 1;            // 0: argmax
  float top_p = 1;
  int32_t top_k = 0;                // 0: off
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  uint64_t seed = 0;
  int32_t choice = 0;               // which of n
  int32_t position = 0;             // of the token being drawn, in the whole sequence (prompt included)
  std::span<const LogitBias> bias;  // ids < vocab
  std::span<const int32_t> suppressed;       // ids that may not be drawn (stop ids before min_tokens)
  const uint32_t* mask = nullptr;            // [ceil(vocab / 32)] allowed bits, or null
  std::span<const int32_t> prompt_tokens;    // for the repetition penalty
  std::span<const int32_t> output_tokens;    // for all penalties; this row's own history, drafts included
  int32_t top_logprobs = -1;        // -1: no logprobs; 0..kMaxTopLogprobs
};

/// logprobs are of the raw logits, before every modification.
struct SampledToken {
  int32_t token = -1;               // -1 when the row was not finite
  bool non_finite = false;          // any logit NaN or +inf, or all -inf
  float logprob = 0;                // set when top_logprobs >= 0
  int32_t top_count = 0;            // as many as asked for, but never a logit of -inf
  int32_t top_ids[kMaxTopLogprobs];
  float top_logprobs[kMaxTopLogprobs];
};

struct SampleBatch {
  const float* logits = nullptr;    // [rows, vocab]
  int32_t rows = 0;
  int32_t vocab = 0;
  const SampleRow* row = nullptr;   // [rows]
  SampledToken* out = nullptr;      // [rows]
};

}  // namespace slipstream
