// A model loaded for the doctor: a backend with its cache, driven by hand, without scheduler or executor. Knows Model and
// Ops; no check.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "kernels/ops.h"

namespace slipstream {

/// Consecutive tokens of one of the probe's sequences.
struct ProbeSpan {
  int32_t sequence = 0;  // below kProbeSequences
  int32_t context = 0;   // tokens before them
  std::vector<int32_t> tokens;
};

inline constexpr int32_t kProbeSequences = 2;

class Probe {
 public:
  /// `ops` is borrowed. max_tokens: the longest sequence, and the rows of the largest step.
  static Result<std::unique_ptr<Probe>> load(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                                             const LoadOptions& load, int32_t max_tokens, DType cache_dtype);

  /// Runs one step; decode and verify spans come first, as in a plan. logit_rows as in StepInputs. Logits on the host.
  std::vector<float> run(std::span<const ProbeSpan> spans, std::span<const int32_t> logit_rows);
  /// One prefill of the first sequence; `logits` of all rows, and the residual stream behind each layer:
  /// [rows, layers, hidden].
  std::vector<float> run_taps(std::span<const int32_t> tokens, std::vector<float>* logits);
  /// The last run's logits in the backend's memory.
  const float* logits() const { return logits_; }
  const ModelConfig& config() const { return model_->config(); }

 private:
  Probe(Ops& ops) : ops_(ops) {}
  std::vector<float> step(std::span<const ProbeSpan> spans, std::span<const int32_t> logit_rows, Taps* taps);

  Ops& ops_;
  std::unique_ptr<Model> model_;
  KvCache kv_;
  std::vector<std::vector<int32_t>> tables_;           // [sequences]: blocks, scattered
  std::vector<std::vector<const int32_t*>> columns_;   // [sequences][groups]
  const float* logits_ = nullptr;
};

}  // namespace slipstream
