// See weight_loader.h.
#include "engine/model/weight_loader.h"

#include <filesystem>

#include "engine/model/dummy_model.h"
#include "engine/model/float_values.h"

namespace slipstream {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

WeightLoader::WeightLoader(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, const LoadOptions& options)
    : checkpoint_(&checkpoint), config_(config), ops_(ops), options_(options), bytes_total_(checkpoint.total_bytes()) {
  CHECK(options.max_rows >= 1 && options.max_logit_rows >= 1, "LoadOptions need the rows of the largest step");
}

Status WeightLoader::use_dummy_weights() {
  std::error_code error;
  const std::filesystem::path path(checkpoint_->path());
  const std::string folder = std::filesystem::is_directory(path, error) ? path.string() : path.parent_path().string();
  SLIP_TRY(dummy_, make_dummy_checkpoint(folder.empty() ? "." : folder, options_.dummy_seed, decoder_tensors(config_)));
  checkpoint_ = dummy_.get();
  bytes_total_ = checkpoint_->total_bytes();
  return Ok{};
}

std::unique_ptr<Checkpoint> WeightLoader::take_source() {
  return source_needed_ ? std::move(dummy_) : nullptr;
}

Status WeightLoader::check() {
  SLIP_TRY(share_, rank_share(config_, options_.rank, options_.ranks));
  return Ok{};
}

Result<const TensorEntry*> WeightLoader::take(const std::string& name, std::initializer_list<int64_t> shape) {
  if (checkpoint_->find(name) == nullptr)
    return corrupt("tensor '" + name + "' is missing from " + checkpoint_->path() + "; the model config says '" +
                   config_.architecture + "' with " + std::to_string(config_.layers) + " layers");
  SLIP_TRY(const TensorEntry* entry, checkpoint_->require(name));
  if (entry->shape != std::vector<int64_t>(shape))
    return corrupt("tensor '" + name + "' has shape " + shape_text(entry->shape) + ", the model config says " +
                   shape_text(shape));
  CHECK(taken_.insert(entry).second, "tensor taken twice: " + name);
  return entry;
}

void WeightLoader::report(const TensorEntry& entry) {
  bytes_done_ += entry.bytes;
  if (options_.progress) options_.progress(bytes_done_, bytes_total_);
}

Result<Buffer> WeightLoader::vector(int32_t layer, std::initializer_list<Piece> pieces, std::string_view suffix) {
  std::vector<float> values;
  for (const Piece& piece : pieces) {
    SLIP_TRY(const TensorEntry* entry,
             take(tensor_name(checkpoint_->kind(), piece.role, layer, suffix), {piece.rows}));
    SLIP_TRY(const std::vector<float> part, float_values(*entry, piece.slice.first, piece.slice.count));
    values.insert(values.end(), part.begin(), part.end());
    report(*entry);
  }
  Buffer buffer = ops_.allocate(values.size() * sizeof(float));
  ops_.upload(buffer.data(), values.data(), values.size() * sizeof(float));
  return buffer;
}

Result<Buffer> WeightLoader::norm(int32_t layer, Role role, int64_t length) {
  return vector(layer, {{role, length, {0, length}}}, "weight");
}

Result<std::unique_ptr<Weight>> WeightLoader::linear(int32_t layer, std::initializer_list<Piece> pieces, int64_t cols) {
  WeightSpec spec;
  std::vector<const TensorEntry*> entries;
  for (const Piece& piece : pieces) {
    SLIP_TRY(const TensorEntry* entry, take(tensor_name(checkpoint_->kind(), piece.role, layer), {piece.rows, cols}));
    const int64_t stride = row_bytes(entry->dtype, cols);
    spec.parts.push_back({entry->name, entry->dtype, piece.slice.count, cols, entry->data + piece.slice.first * stride,
                          stride});
    entries.push_back(entry);
  }
  return prepare(std::move(spec), entries);
}

Result<std::unique_ptr<Weight>> WeightLoader::row_linear(int32_t layer, Role role, int64_t rows, int64_t cols,
                                                         int64_t granule) {
  SLIP_TRY(const TensorEntry* entry, take(tensor_name(checkpoint_->kind(), role, layer), {rows, cols}));
  const int64_t unit = shard_unit(granule, dtype_info(entry->dtype).block_elements);
  const int32_t shards = virtual_shards(cols, unit);
  if (shards % share_.ranks != 0)
    return unsupported("tensor parallel size " + std::to_string(share_.ranks) + " does not divide the " +
                           std::to_string(shards) + " shards of '" + entry->name + "' (gcd of 12 and " +
                           std::to_string(cols) + " input features in units of " + std::to_string(unit) + ")",
                       "tensor_parallel_size");
  const int32_t local = shards / share_.ranks;
  const int64_t local_cols = cols / share_.ranks;
  WeightSpec spec;
  spec.role = WeightRole::kRowLinear;
  spec.virtual_shards = shards;
  spec.first_shard = share_.rank * local;
  spec.local_shards = local;
  const int64_t first_col = share_.rank * local_cols;
  spec.parts.push_back({entry->name, entry->dtype, rows, local_cols, entry->data + row_bytes(entry->dtype, first_col),
                        row_bytes(entry->dtype, cols)});
  return prepare(std::move(spec), {entry});
}

Result<std::unique_ptr<Weight>> WeightLoader::table(Role role, WeightRole weight_role) {
  SLIP_TRY(const TensorEntry* entry,
           take(tensor_name(checkpoint_->kind(), role, 0), {int64_t{config_.vocab}, int64_t{config_.hidden}}));
  WeightSpec spec;
  spec.role = weight_role;
  spec.parts.push_back({entry->name, entry->dtype, config_.vocab, config_.hidden, entry->data,
                        row_bytes(entry->dtype, config_.hidden)});
  return prepare(std::move(spec), {entry});
}

Result<std::unique_ptr<Weight>> WeightLoader::prepare(WeightSpec spec, const std::vector<const TensorEntry*>& entries) {
  if (std::string reason = ops_.unsupported_reason(spec); !reason.empty())
    return unsupported("backend " + ops_.name() + ": " + reason);
  std::unique_ptr<Weight> weight = ops_.prepare_weight(std::move(spec));
  for (const TensorEntry* entry : entries) {
    // A weight that keeps nothing of its own reads the mapping at every step.
    if (weight->resident_bytes() > 0) {
      checkpoint_->release(*entry);
    } else {
      source_needed_ = true;
    }
    report(*entry);
  }
  return weight;
}

Status WeightLoader::finish() {
  std::string names;
  int64_t count = 0;
  for (const TensorEntry& entry : checkpoint_->tensors()) {
    if (taken_.contains(&entry) || may_be_left_over(checkpoint_->kind(), entry.name, config_.tied_embedding)) continue;
    if (++count <= 3) names += (count > 1 ? ", '" : "'") + entry.name + "'";
  }
  if (count == 0) return Ok{};
  if (count > 3) names += " and " + std::to_string(count - 3) + " more";
  return corrupt("tensors that '" + config_.architecture + "' does not use: " + names +
                 "; the checkpoint is of another architecture or holds an adapter");
}

}  // namespace slipstream
