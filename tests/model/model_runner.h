// Runs a model over one sequence without the engine: a cache of its own, chunks of any size, one or more ranks.
// For tests and tools/logits. Knows Model, Ops and Checkpoint; no scheduler.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model.h"

namespace slipstream::test {

struct RunnerOptions {
  std::string backend = "reference";  // or "cpu", "cuda"
  std::string isa = "";               // CpuOptions::isa
  int32_t threads = 1;
  DType cache_dtype = DType::kF32;
  int32_t block_tokens = kAttentionTile;
  int32_t max_tokens = 256;           // longest sequence
  int32_t max_rows = 0;               // rows of one step; 0: max_tokens
  int32_t ranks = 1;
  bool dummy = false;
  uint64_t dummy_seed = 1;
  bool device_owned = false;          // cuda: the model sees only the device's copy of a step, as it does of resident slots
};

class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> make(Checkpoint& checkpoint, const ModelConfig& config,
                                                   const RunnerOptions& options);
  ~ModelRunner();

  /// Logits of the ascending positions `wanted` of the sequence `ids`, prefilled in chunks of at most `chunk` rows
  /// (0: one chunk): [wanted.size(), vocab]. One entry per rank; ranks must agree.
  std::vector<std::vector<float>> run_ranks(std::span<const int32_t> ids, std::span<const int32_t> wanted,
                                            int32_t chunk = 0);
  /// The first rank's logits.
  std::vector<float> run(std::span<const int32_t> ids, std::span<const int32_t> wanted, int32_t chunk = 0);

  /// Residual outputs of `layers` for one unchunked prefill at one rank: [rows, layers.size(), hidden]. `wanted` are
  /// the logit rows of that step.
  std::vector<float> run_taps(std::span<const int32_t> ids, std::span<const int32_t> layers,
                              std::span<const int32_t> wanted);

  const Model& model() const;
  Ops& ops();

 private:
  struct Rank;
  ModelRunner(const ModelConfig& config, const RunnerOptions& options);
  void run_rank(Rank& rank, std::span<const int32_t> ids, std::span<const int32_t> wanted, int32_t chunk, Taps* taps,
                std::vector<float>& out);

  ModelConfig config_;
  RunnerOptions options_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace slipstream::test
