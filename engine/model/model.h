// One architecture's forward pass over Ops. One Model per rank; its worker thread only. No allocation after
// construction; about 200 lines per architecture, readable top to bottom.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/model_config.h"
#include "engine/weights/checkpoint.h"
#include "kernels/ops.h"

namespace slipstream {

/// Residual-stream outputs of chosen layers, for drafters: layer l's row r is copied to
/// out + (r * layers.size() + index) * hidden. Null when nobody listens.
struct Taps {
  std::span<const int32_t> layers;
  float* out = nullptr;  // [rows, layers.size(), hidden]
};

/// What the cache must provide for a model, per cache group.
struct CacheGroupSpec {
  int32_t layers = 0;
  int32_t kv_heads = 0;      // on this rank
  int32_t head_dim = 0;
  int32_t window = 0;        // 0: keep everything
};

/// Of one layer's kF8E4M3 cache (KvLayer::k_scale, v_scale).
struct CacheScale {
  float k = 1.0f, v = 1.0f;
};

/// The K/V views of every layer, in layer order. Implemented by engine/cache/kv_cache.
class KvViews {
 public:
  virtual ~KvViews() = default;
  virtual KvLayer layer(int32_t index) const = 0;
};

struct LoadOptions {
  int32_t max_rows = 0;          // rows of the largest step
  int32_t max_logit_rows = 0;    // rows with logits in the largest step
  bool dummy = false;            // --load-format dummy: values from (dummy_seed, tensor name, element index)
  uint64_t dummy_seed = 0;
  std::optional<DType> dummy_format;  // of dummy matrices; the config's own when not given
  int32_t rank = 0, ranks = 1;   // tensor parallel
  /// Called after each tensor with (bytes done, bytes in all); may be empty.
  std::function<void(uint64_t, uint64_t)> progress;
  std::vector<std::string>* notes = nullptr;  // gets one line for each kind of tensor that is read and not used
};

/// The two ends of a model, which a drafter borrows: it embeds tokens and scores hidden states as its target does.
struct ModelEnds {
  const Weight* embedding = nullptr;  // [vocab, hidden]
  const Weight* head = nullptr;       // [vocab, hidden]; the embedding again where the two are tied
  float embedding_scale = 1;          // factor of a row that was looked up
  float logit_softcap = 0;            // c: a logit x becomes c tanh(x / c). 0: none
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  /// The weights live as long as the model.
  virtual ModelEnds ends() const = 0;
  virtual std::vector<CacheGroupSpec> cache_groups() const = 0;
  /// Runs all layers on step.rows rows and writes logits of step.logit_rows: [logit_rows.size(), vocab].
  /// Forward and head are separate so that a commit can follow masks (engine/README.md, the step).
  virtual void forward(const StepInputs& step, const KvViews& kv, Taps* taps) = 0;
  /// Head over the hidden rows kept by the last forward; returns the logits' address, valid until the next forward.
  virtual const float* head() = 0;
  /// Weights kept in memory, for the load report.
  virtual int64_t resident_bytes() const = 0;
};

/// Reads the config, checks that every tensor is consumed exactly once (missing or left-over tensors are errors that
/// name them), prepares the weights on `ops` and builds the architecture's Model.
Result<std::unique_ptr<Model>> load_model(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                                          const LoadOptions& options);

}  // namespace slipstream
