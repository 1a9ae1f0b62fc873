// Sampling on the device: exactly the law of kernels/sample.h, so that bit-equal logits give the reference's token,
// logprob bits and top-N. Knows rows and logits; no sequence and no slot.
//
// The vocabulary is never sorted and no logit leaves the device. Per pass over at most kSampleRowsPerPass rows:
//
//   prepare    [8, rows] blocks         marks the ids that the row's history, bias and suppressed ids touch, with counts
//   scan       [blocks, rows]           largest and smallest logit, raw and modified; non-finite flag
//   histogram  [blocks, rows]           rows with top-k, top-p or top logprobs: (count or mass) by distance to the maximum
//   draw       [blocks, rows]           noise for everything that surely survives, a list of what lies at the boundary
//   finish     [rows] blocks            exact boundary by radix selection on the list, the last draws, logprobs, clean-up
//
// Bytes: `greedy` reads the logits once. The others read them three times, the second and third time mostly from L2.
// Measured on one H200 as graph replays over logits that are not in L2 (bench_sample), vocabulary 151,936, sigma 3, T 0.8:
//   greedy    3.8 us for 1 row (an empty launch is about 3), 14.6 us for 64, 41 us for 256 (3.8 TB/s, 86 % of the ceiling)
//   sampled   64 rows: plain 53 us, top-k 50 67 us, top-p 0.9 97 us (nearly equal logits: 116 us); 1 row: 15, 23, 28 us
//   penalties over 2,000 tokens of history add 63 us to 64 rows and 7 us to one; full with 20 logprobs adds 33 us and 6 us
// Histogram and draw are bound by instructions (IEEE division, fixed-point mass; Philox), not by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/ops.h"
#include "kernels/sample.h"

namespace slipstream::cuda {

inline constexpr int32_t kSampleRowsPerPass = 64;

/// greedy: every row is a plain argmax (no bias, penalties, masks or logprobs). sampled: no masks and no logprobs.
enum class SampleVariant : uint8_t { kGreedy, kSampled, kFull };

/// SampleRow with device pointers. History, bias and suppressed ids outside the vocabulary are ignored (second wall).
struct DeviceSampleRow {
  float temperature = 1;
  float top_p = 1;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  int32_t top_k = 0;
  int32_t choice = 0;
  uint64_t seed = 0;
  int32_t position = -1;                // -1: the row is not drawn and its output stays as it is
  int32_t top_logprobs = -1;
  const LogitBias* bias = nullptr;      // [bias_count]
  const int32_t* suppressed = nullptr;  // [suppressed_count]
  const int32_t* history = nullptr;     // [prompt_tokens + output_tokens]; read only when a penalty is on
  const uint32_t* mask = nullptr;       // [ceil(vocab / 32)] or null
  int32_t bias_count = 0;
  int32_t suppressed_count = 0;
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
};

struct SampleArgs {
  const float* logits = nullptr;        // [rows, vocab]
  int32_t rows = 0;                     // launch bound
  int32_t vocab = 0;                    // < 2^24
  const DeviceSampleRow* row = nullptr; // [rows], device; greedy reads only `position`, and takes null for "draw all"
  SampledToken* out = nullptr;          // [rows], device
  void* scratch = nullptr;              // sample_scratch_bytes(scratch_rows, vocab); zero at first use, left reusable
  int32_t scratch_rows = 0;             // >= rows; always the number that the scratch was sized for
  SampleVariant variant = SampleVariant::kFull;
};

/// The same scratch serves every variant and any smaller row count of the same vocabulary. About 5 bytes per vocabulary
/// entry of at most kSampleRowsPerPass rows, and 84 KB for each of them.
size_t sample_scratch_bytes(int32_t rows, int32_t vocab);

/// Launches only: no allocation, no synchronisation, no read of device memory by the host. Graph-capturable.
void sample(Context& context, const SampleArgs& args);

/// The variant that serves a batch of host rows.
SampleVariant variant_of(const SampleRow* row, int32_t rows);

std::vector<KernelChoice> sample_report(const Context& context);

/// Brings a host's SampleBatch to the device and the draws back: the eager path's twin of device-resident rows. Rows that
/// share one history (a verify span) share one copy of it. One per rank, worker thread only.
class SampleUpload {
 public:
  explicit SampleUpload(Context& context);
  ~SampleUpload();
  SampleUpload(const SampleUpload&) = delete;
  SampleUpload& operator=(const SampleUpload&) = delete;

  /// Room for steps of these bounds; sample allocates nothing afterwards. max_history: prompt and output of one sequence.
  /// A batch whose laws do not fit together (many long histories with penalties) is drawn in several runs of consecutive
  /// rows; a single row always fits within these bounds, and one beyond them is a DeviceError.
  void reserve(int32_t max_rows, int32_t vocab, int64_t max_history);
  /// batch.logits is device memory, everything else host memory. Waits for the draws. Before reserve it grows as needed.
  void sample(const SampleBatch& batch);

 private:
  struct Staging;
  std::unique_ptr<Staging> staging_;
};

}  // namespace slipstream::cuda
