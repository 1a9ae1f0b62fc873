// See weight_loader.h.
#include "engine/model/weight_loader.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "engine/model/float_values.h"

namespace slipstream {
WeightLoader::WeightLoader(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, const LoadOptions& options,
                           const TensorNames& names)
    : checkpoint_(&checkpoint),
      config_(config),
      ops_(ops),
      options_(options),
      names_(names),
      bytes_total_(checkpoint.total_bytes()) {
  CHECK(options.max_rows >= 1 && options.max_logit_rows >= 1, "LoadOptions need the rows of the largest step");
}

Status WeightLoader::use_dummy_weights(const std::vector<DummyTensor>& tensors) {
  std::error_code error;
  const std::filesystem::path path(checkpoint_->path());
  const std::string folder = std::filesystem::is_directory(path, error) ? path.string() : path.parent_path().string();
  SLIP_TRY(dummy_, make_dummy_checkpoint(folder.empty() ? "." : folder, options_.dummy_seed, tensors, DummyBytes::kSmall));
  checkpoint_ = dummy_.get();
  bytes_total_ = checkpoint_->total_bytes();
  return Ok{};
}

DummySource WeightLoader::take_source() {
  if (!source_.matrices.empty()) source_.small = std::move(dummy_);
  return std::move(source_);
}

Status WeightLoader::check() {
  SLIP_TRY(share_, rank_share(config_, options_.rank, options_.ranks));
  return Ok{};
}

Result<const TensorEntry*> WeightLoader::take(const std::string& name, std::initializer_list<int64_t> shape,
                                               bool again) {
  if (checkpoint_->find(name) == nullptr)
    return corrupt("tensor '" + name + "' is missing from " + checkpoint_->path() + "; the model config says '" +
                   config_.architecture + "' with " + std::to_string(config_.layers) + " layers");
  SLIP_TRY(const TensorEntry* entry, checkpoint_->require(name));
  if (entry->shape != std::vector<int64_t>(shape))
    return corrupt("tensor '" + name + "' has shape " + shape_text(entry->shape) + ", the model config says " +
                   shape_text(shape));
  mark_taken(*entry, again);
  return entry;
}

void WeightLoader::mark_taken(const TensorEntry& entry, bool again) {
  CHECK(taken_.insert(&entry).second != again, "tensor taken twice, or not taken before: " + entry.name);
}

void WeightLoader::report(const TensorEntry& entry) {
  bytes_done_ += entry.bytes;
  if (options_.progress) options_.progress(bytes_done_, bytes_total_);
}

Result<Buffer> WeightLoader::vector(int32_t layer, std::initializer_list<Piece> pieces, std::string_view suffix) {
  std::vector<float> values;
  for (const Piece& piece : pieces) {
    SLIP_TRY(const TensorEntry* entry,
             take(names_.of(checkpoint_->kind(), piece.role, layer, suffix), {piece.rows}));
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
    SLIP_TRY(const TensorEntry* entry,
             take(names_.of(checkpoint_->kind(), piece.role, layer, "weight"), {piece.rows, cols}, piece.again));
    SLIP_TRY(WeightPart slice, part(entry, piece.slice, {0, cols}, &entries, piece.again));
    spec.parts.push_back(std::move(slice));
  }
  return prepare(std::move(spec), entries);
}

Result<std::unique_ptr<Weight>> WeightLoader::row_linear(int32_t layer, Role role, int64_t rows, int64_t cols,
                                                         int64_t granule) {
  SLIP_TRY(const TensorEntry* entry, take(names_.of(checkpoint_->kind(), role, layer, "weight"), {rows, cols}));
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
  std::vector<const TensorEntry*> entries;
  SLIP_TRY(WeightPart slice, part(entry, {0, rows}, {share_.rank * local_cols, local_cols}, &entries));
  spec.parts.push_back(std::move(slice));
  return prepare(std::move(spec), entries);
}

Result<std::unique_ptr<Weight>> WeightLoader::table(Role role, WeightRole weight_role) {
  SLIP_TRY(const TensorEntry* entry,
           take(names_.of(checkpoint_->kind(), role, 0, "weight"), {int64_t{config_.vocab}, int64_t{config_.hidden}}));
  WeightSpec spec;
  spec.role = weight_role;
  std::vector<const TensorEntry*> entries;
  SLIP_TRY(WeightPart whole, part(entry, {0, config_.vocab}, {0, config_.hidden}, &entries));
  spec.parts.push_back(std::move(whole));
  return prepare(std::move(spec), entries);
}

Result<WeightPart> WeightLoader::part(const TensorEntry* entry, const Slice& rows, const Slice& cols,
                                      std::vector<const TensorEntry*>* entries, bool again) {
  const int64_t whole_cols = entry->shape[1];
  const int64_t first = rows.first * whole_cols + cols.first;
  WeightPart out{entry->name, entry->dtype, rows.count, cols.count, entry->data, row_bytes(entry->dtype, whole_cols)};
  if (out.data == nullptr && ops_.makes_dummy_weights()) {
    out.dummy = {dummy_key(options_.dummy_seed, entry->name), whole_cols, first};
  } else {
    if (out.data == nullptr) {
      generated_.push_back(std::make_unique_for_overwrite<std::byte[]>(entry->bytes));
      fill_dummy(options_.dummy_seed, {entry->name, entry->dtype, entry->shape}, 0, entry->shape[0] * whole_cols,
                 generated_.back().get());
      out.data = generated_.back().get();
    }
    out.data += row_bytes(entry->dtype, first);
  }
  if (!again) entries->push_back(entry);
  if (entry->dtype != DType::kF8E4M3) return out;
  SLIP_TRY(out.scales, take_scales(*entry, entries, again));
  out.scales.first_row = rows.first;
  out.scales.first_col = cols.first;
  return out;
}

Result<WeightScales> WeightLoader::take_scales(const TensorEntry& codes, std::vector<const TensorEntry*>* entries,
                                               bool again) {
  if (config_.fp8.scales == Fp8Scheme::Scales::kNone)
    return corrupt("tensor '" + codes.name + "' is F8_E4M3, but config.json has no quantization_config that says where its "
                   "scales are");
  const std::string name = sibling_name(codes.name, config_.fp8.suffix);
  if (checkpoint_->find(name) == nullptr)
    return corrupt("tensor '" + codes.name + "' is F8_E4M3, but its scales '" + name + "' " +
                   shape_text(config_.fp8.scale_shape(codes.shape[0], codes.shape[1])) + " are missing from " +
                   checkpoint_->path());
  SLIP_TRY(const TensorEntry* scales, checkpoint_->require(name));
  SLIP_TRY(const WeightScales out, weight_scales(config_.fp8, codes, *scales));
  mark_taken(*scales, again);
  if (again) return out;
  entries->push_back(scales);
  if (const TensorEntry* input = checkpoint_->find(sibling_name(codes.name, "input_scale")); input != nullptr) {
    mark_taken(*input, again);
    entries->push_back(input);
    ++input_scales_;
  }
  return out;
}

Result<std::unique_ptr<Weight>> WeightLoader::prepare(WeightSpec spec, const std::vector<const TensorEntry*>& entries) {
  if (std::string reason = ops_.unsupported_reason(spec); !reason.empty())
    return unsupported("backend " + ops_.name() + ": " + reason);
  std::unique_ptr<Weight> weight = ops_.prepare_weight(std::move(spec));
  // A weight that keeps nothing of its own reads its source at every step.
  const bool reads_source = weight->resident_bytes() == 0;
  if (reads_source) std::ranges::move(generated_, std::back_inserter(source_.matrices));
  generated_.clear();
  for (const TensorEntry* entry : entries) {
    if (!reads_source && entry->data != nullptr) checkpoint_->release(*entry);
    report(*entry);
  }
  return weight;
}

Status WeightLoader::finish() {
  if (input_scales_ > 0 && options_.notes != nullptr)
    options_.notes->push_back(std::to_string(input_scales_) +
                              " 'input_scale' tensors are not used: activations are not quantised to FP8 (W8A16)");
  std::string names;
  int64_t count = 0;
  for (const TensorEntry& entry : checkpoint_->tensors()) {
    if (taken_.contains(&entry) || names_.may_be_left_over(checkpoint_->kind(), entry.name, config_.tied_embedding)) continue;
    if (++count <= 3) names += (count > 1 ? ", '" : "'") + entry.name + "'";
  }
  if (count == 0) return Ok{};
  if (count > 3) names += " and " + std::to_string(count - 3) + " more";
  return corrupt("tensors that '" + config_.architecture + "' does not use: " + names +
                 "; the checkpoint is of another architecture or holds an adapter");
}

}  // namespace slipstream
