// Tiny drafters for tests: what scripts/make_drafter_golden wrote, their checkpoints in both containers, and a drafter with
// its target, one cache for both and a few sequences. Knows Model, DflashDrafter and Ops; no scheduler.
#pragma once

#include <nlohmann/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/model/dflash_drafter.h"
#include "tests/model/tiny_model.h"

namespace slipstream::test {

struct GoldenBlock {
  int32_t context = 0, rows = 0;
  std::vector<double> hidden;   // [rows, hidden]
  std::vector<double> logits;   // [slots, vocab]
  std::vector<int32_t> drafts;  // [slots]
};

struct GoldenDrafter {
  std::string name;
  nlohmann::json config;
  Golden target;                        // without prompts
  std::vector<int32_t> ids, positions;
  std::vector<double> taps;             // [positions, taps, hidden]
  std::vector<std::vector<double>> k, v;  // [layers][positions, kv heads, head_dim]
  std::vector<GoldenBlock> blocks;
};

/// tests/fixtures/golden/drafter-<name>.json; fails the test when it is absent.
GoldenDrafter read_golden_drafter(const std::string& name);
std::vector<std::string> golden_drafter_names();

/// The drafter as its authors store it. Matrices are rounded to `dtype`; vectors stay F32.
MemoryCheckpoint drafter_safetensors(const GoldenDrafter& golden, DType dtype = DType::kF32);
/// The same drafter as a GGUF file of architecture dflash.
MemoryCheckpoint drafter_gguf(const GoldenDrafter& golden, DType dtype = DType::kF32);

/// K (or V) of one position in a layer of a cache, as floats: [kv heads, head_dim].
std::vector<float> cache_row(const KvLayer& kv, const int32_t* table, bool key, int32_t position);

struct DraftRigOptions {
  std::string backend = "cpu";  // or "reference", or "checked": cpu within CheckedOps
  std::string isa = "";
  DType cache_dtype = DType::kF32;
  int32_t max_blocks = 4;
  int32_t max_rows = 96;        // of an inject
  bool dummy = false;
  // What the target says of its ends; those of a tiny target are 1 and 0.
  float target_scale = 1, target_softcap = 0;
  std::vector<std::string>* notes = nullptr;
  Communicator* comm = nullptr;  // of one rank among several
};

/// A target, its drafter and a cache for three sequences of up to 192 tokens. Blocks are handed out in a different disorder
/// for each sequence and cache group, so that a wrong table or group is noticed.
class DraftRig {
 public:
  static constexpr int32_t kSequences = 3, kTokens = 192;

  /// Both checkpoints outlive the rig. Errors are those of load_dflash_drafter.
  static Result<std::unique_ptr<DraftRig>> make(Checkpoint& target, Checkpoint& drafter, const DraftRigOptions& options);
  ~DraftRig();

  /// Taps of every position of `ids`: [ids, taps, hidden].
  std::vector<float> run_target(std::span<const int32_t> ids);
  /// Rows of several sequences, injected in one call.
  struct Chunk {
    int32_t sequence = 0, first = 0, rows = 0;
    const float* taps = nullptr;  // of the whole sequence
  };
  void inject(std::span<const Chunk> chunks);
  DraftBlock block(int32_t sequence, int32_t anchor, int32_t context, int32_t rows) const;
  std::vector<std::vector<int32_t>> draft(std::span<const DraftBlock> blocks);
  /// cache_row of a layer of the drafter.
  std::vector<float> context_row(bool key, int32_t layer, int32_t sequence, int32_t position) const;
  std::vector<float> hidden(int32_t rows) const;
  std::vector<float> scores(int32_t slots) const;

  DflashDrafter& drafter() { return *drafter_; }
  const DflashDrafter& drafter() const { return *drafter_; }
  Model& target() { return *target_; }
  Ops& ops() { return *ops_; }

 private:
  DraftRig() = default;
  std::unique_ptr<Ops> inner_;  // of CheckedOps
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> target_;
  std::unique_ptr<DflashDrafter> drafter_;
  std::unique_ptr<KvCache> kv_;
  std::vector<std::vector<std::vector<int32_t>>> tables_;  // [sequences][groups]
  std::vector<std::vector<const int32_t*>> columns_;       // [sequences][groups]
};

/// A rig; fails the test when it cannot be made.
std::unique_ptr<DraftRig> draft_rig(Checkpoint& target, Checkpoint& drafter, const DraftRigOptions& options);

}  // namespace slipstream::test
