// Takes tensors out of a checkpoint by role, checks their shapes, cuts this rank's slice and hands it to the backend.
// Owns the record of what was consumed; never knows an architecture's layer order or a kernel.
//
// Thread: the loading thread of one rank.
#pragma once

#include <initializer_list>
#include <memory>
#include <unordered_set>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/name_map.h"
#include "engine/model/sharding.h"
#include "engine/weights/dummy_weights.h"

namespace slipstream {

/// What dummy weights that keep nothing of their own read at every step.
struct DummySource {
  std::unique_ptr<Checkpoint> small;  // scales of FP8 matrices, among others
  std::vector<std::unique_ptr<std::byte[]>> matrices;
};

class WeightLoader {
 public:
  WeightLoader(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, const LoadOptions& options,
               const TensorNames& names = kDecoderNames);

  /// Takes `tensors`, whose values follow from (options.dummy_seed, name, index), instead of the checkpoint's; any side
  /// file may be absent.
  Status use_dummy_weights(const std::vector<DummyTensor>& tensors);
  /// The rank's share of the model, or why it cannot be cut so. Before everything else.
  Status check();

  const ModelConfig& config() const { return config_; }
  const LoadOptions& options() const { return options_; }
  const RankShare& share() const { return share_; }
  Ops& ops() const { return ops_; }

  /// Some rows of a stored matrix, or some elements of a stored vector.
  struct Piece {
    Role role;
    int64_t rows;  // of the whole tensor
    Slice slice;   // this rank's
    bool again = false;  // taken before: a second copy, in another weight
  };
  /// Pieces stacked in order as one F32 vector in device memory; suffix "weight" for norms, "bias" for biases.
  Result<Buffer> vector(int32_t layer, std::initializer_list<Piece> pieces, std::string_view suffix);
  /// A norm weight of `length`, whole on every rank.
  Result<Buffer> norm(int32_t layer, Role role, int64_t length);
  /// Pieces stacked in order as one matrix; each rank holds whole rows.
  Result<std::unique_ptr<Weight>> linear(int32_t layer, std::initializer_list<Piece> pieces, int64_t cols);
  /// A row-parallel matrix [rows, cols]: this rank holds the columns of its virtual shards. Its unit is
  /// shard_unit(granule, the stored block).
  Result<std::unique_ptr<Weight>> row_linear(int32_t layer, Role role, int64_t rows, int64_t cols, int64_t granule);
  /// The embedding or the head, whole on every rank.
  Result<std::unique_ptr<Weight>> table(Role role, WeightRole weight_role);

  /// An error that names tensors nobody took.
  Status finish();
  /// Dummy weights that a Weight still reads; empty where none does.
  DummySource take_source();

 private:
  Result<const TensorEntry*> take(const std::string& name, std::initializer_list<int64_t> shape, bool again = false);
  /// Some rows and columns of a matrix as a part: its bytes, or the law that makes dummy ones. An FP8 matrix brings its scales; every tensor taken joins `entries`.
  Result<WeightPart> part(const TensorEntry* entry, const Slice& rows, const Slice& cols,
                          std::vector<const TensorEntry*>* entries, bool again = false);
  Result<WeightScales> take_scales(const TensorEntry& codes, std::vector<const TensorEntry*>* entries, bool again);
  void mark_taken(const TensorEntry& entry, bool again);
  Result<std::unique_ptr<Weight>> prepare(WeightSpec spec, const std::vector<const TensorEntry*>& entries);
  void report(const TensorEntry& entry);

  Checkpoint* checkpoint_;
  std::unique_ptr<Checkpoint> dummy_;  // what checkpoint_ points at when it is not the caller's
  std::vector<std::unique_ptr<std::byte[]>> generated_;  // bytes of dummy matrices that the weight in hand reads
  DummySource source_;                                   // … and what weights read at every step
  const ModelConfig& config_;
  Ops& ops_;
  const LoadOptions& options_;
  const TensorNames& names_;
  RankShare share_;
  std::unordered_set<const TensorEntry*> taken_;
  int64_t input_scales_ = 0;             // stored scales of activations, which nobody uses
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
};

}  // namespace slipstream
