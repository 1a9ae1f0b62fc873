// The names of a drafter's tensors: the published aliases behind one spelling, and the list of what a config asks for.
// Knows names and shapes; no forward pass.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/drafter_config.h"
#include "engine/model/name_map.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/dummy_weights.h"

namespace slipstream {

/// "fc.weight", "layers.0.self_attn.q_proj.weight" (the authors' names), or "blk.0.attn_q.weight" (GGUF).
extern const TensorNames kDrafterNames;

/// A drafter's checkpoint under those names: `model.` in front is dropped, `midlayer.` is layer 0, `encoder.fc` and
/// `encoder.output_norm_enc` are the fusion, and the rows of fused `qkv_proj` and `gate_up_proj` stand as matrices of their
/// own. Other names stay. Borrows the checkpoint.
class DrafterTensors final : public Checkpoint {
 public:
  /// kCorrupt when two tensors stand for the same one, or a fused matrix has other rows than the config says.
  static Result<DrafterTensors> view(Checkpoint& source, const DrafterConfig& config);

  CheckpointKind kind() const override { return source_->kind(); }
  const std::string& path() const override { return source_->path(); }
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return source_->metadata(); }
  Result<std::string> read_side_file(std::string_view name, uint64_t max_bytes) const override {
    return source_->read_side_file(name, max_bytes);
  }
  void release(const TensorEntry& tensor) override { source_->release(tensor); }
  Status check_unchanged() const override { return source_->check_unchanged(); }

 private:
  explicit DrafterTensors(Checkpoint& source) : source_(&source) {}
  Status add(const TensorEntry& entry, const DrafterConfig& config);
  Status add_rows(const TensorEntry& fused, const std::string& module, const std::vector<std::pair<const char*, int64_t>>& parts);

  Checkpoint* source_;
  std::vector<TensorEntry> entries_;  // sorted by name
};

/// Sizes that the tensors alone tell.
struct DrafterShape {
  int32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  int64_t fused_width = 0;  // taps times the target's hidden size
};
/// kCorrupt names the tensor that is missing or of an impossible shape.
Result<DrafterShape> read_drafter_shape(const Checkpoint& checkpoint);

/// Every tensor of such a drafter under its authors' name: matrices as `matrices`, vectors as stack.weights_dtype.
std::vector<DummyTensor> drafter_tensors(const DrafterConfig& config, DType matrices);

/// Some checkpoints carry copies of the target's embedding and head, which are borrowed anyway: they must be the target's own.
/// `target` may be null: nothing to compare with. Copies that are in another format than the target's are not compared; what
/// was skipped goes to `notes` (may be null), one line for each.
Status check_borrowed_copies(const Checkpoint& drafter, const Checkpoint* target, std::vector<std::string>* notes);

}  // namespace slipstream
