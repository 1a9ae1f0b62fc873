// See drafter_tensors.h.
#include "engine/model/drafter_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/formats.h"

namespace slipstream {
namespace {

constexpr std::string_view kModelPrefix = "model.";

std::string drafter_name(CheckpointKind kind, Role role, int32_t layer, std::string_view suffix) {
  std::string name = tensor_name(kind, role, layer, suffix);
  if (name.starts_with(kModelPrefix)) name.erase(0, kModelPrefix.size());
  return name;
}

/// Copies of the target's ends; check_borrowed_copies has looked at them.
bool is_borrowed(std::string_view name) {
  return name == "embed_tokens.weight" || name == "lm_head.weight" || name == "token_embd.weight" || name == "output.weight";
}

bool may_be_left_over_here(CheckpointKind kind, std::string_view name, bool) {
  return is_borrowed(name) || may_be_left_over(kind, name, false);
}

/// The authors' name of a safetensors entry.
std::string plain_name(std::string name) {
  if (name.starts_with(kModelPrefix)) name.erase(0, kModelPrefix.size());
  for (const auto& [alias, plain] : {std::pair<std::string_view, std::string_view>{"midlayer.", "layers.0."},
                                     {"encoder.fc.", "fc."},
                                     {"encoder.output_norm_enc.", "hidden_norm."}})
    if (name.starts_with(alias)) name.replace(0, alias.size(), plain);
  return name;
}

bool by_name(const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; }

}  // namespace

const TensorNames kDrafterNames = {drafter_name, may_be_left_over_here};

Result<DrafterTensors> DrafterTensors::view(Checkpoint& source, const DrafterConfig& config) {
  DrafterTensors out(source);
  for (const TensorEntry& entry : source.tensors()) SLIP_RETURN_IF_ERROR(out.add(entry, config));
  std::sort(out.entries_.begin(), out.entries_.end(), by_name);
  const auto twice = std::adjacent_find(out.entries_.begin(), out.entries_.end(),
                                        [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
  if (twice != out.entries_.end())
    return corrupt("drafter: tensor '" + twice->name + "' stands twice in " + source.path() +
                   ", under different names; remove one of them");
  return out;
}

Status DrafterTensors::add(const TensorEntry& entry, const DrafterConfig& config) {
  TensorEntry named = entry;
  if (kind() == CheckpointKind::kSafetensors) named.name = plain_name(named.name);
  const ModelConfig& s = config.stack;
  constexpr std::string_view kQkv = "qkv_proj.weight", kGateUp = "gate_up_proj.weight";
  if (named.name.ends_with(kQkv)) {
    const int64_t kv = int64_t{s.kv_heads} * s.head_dim;
    return add_rows(named, named.name.substr(0, named.name.size() - kQkv.size()),
                    {{"q_proj.weight", int64_t{s.heads} * s.head_dim}, {"k_proj.weight", kv}, {"v_proj.weight", kv}});
  }
  if (named.name.ends_with(kGateUp))
    return add_rows(named, named.name.substr(0, named.name.size() - kGateUp.size()),
                    {{"gate_proj.weight", s.ffn}, {"up_proj.weight", s.ffn}});
  entries_.push_back(std::move(named));
  return Ok{};
}

Status DrafterTensors::add_rows(const TensorEntry& fused, const std::string& module,
                                const std::vector<std::pair<const char*, int64_t>>& parts) {
  int64_t rows = 0;
  for (const auto& part : parts) rows += part.second;
  if (fused.shape.size() != 2 || fused.shape[0] != rows)
    return corrupt("drafter: tensor '" + fused.name + "' has shape " + shape_text(fused.shape) + ", the config says " +
                   std::to_string(rows) + " rows");
  const uint64_t row_size = fused.bytes / static_cast<uint64_t>(rows);
  uint64_t offset = 0;
  for (const auto& [name, count] : parts) {
    TensorEntry part = fused;
    part.name = module + name;
    part.shape[0] = count;
    part.bytes = row_size * static_cast<uint64_t>(count);
    if (part.data != nullptr) part.data += offset;
    offset += part.bytes;
    entries_.push_back(std::move(part));
  }
  return Ok{};
}

Result<DrafterShape> read_drafter_shape(const Checkpoint& checkpoint) {
  std::map<std::string, const TensorEntry*> tensors;
  for (const TensorEntry& entry : checkpoint.tensors())
    tensors[checkpoint.kind() == CheckpointKind::kSafetensors ? plain_name(entry.name) : entry.name] = &entry;
  Error missing;
  const auto find = [&](const std::string& name, size_t dims) -> const TensorEntry* {
    const auto at = tensors.find(name);
    const bool fits = at != tensors.end() && at->second->shape.size() == dims && std::ranges::min(at->second->shape) >= 1 &&
                      std::ranges::max(at->second->shape) <= int64_t{1} << 24;
    if (fits) return at->second;
    missing = corrupt("drafter: tensor '" + name + "' is missing or of an impossible shape in " + checkpoint.path() +
                      "; a DFlash drafter has it");
    return nullptr;
  };
  const auto named = [&](Role role) { return drafter_name(checkpoint.kind(), role, 0, "weight"); };
  const TensorEntry *fusion = find(named(Role::kFusion), 2), *norm = fusion ? find(named(Role::kOutputNorm), 1) : nullptr,
                    *head_norm = norm ? find(named(Role::kQNorm), 1) : nullptr, *o = head_norm ? find(named(Role::kO), 2) : nullptr,
                    *down = o ? find(named(Role::kDown), 2) : nullptr;
  if (down == nullptr) return missing;
  DrafterShape shape;
  shape.hidden = static_cast<int32_t>(norm->shape[0]);
  shape.head_dim = static_cast<int32_t>(head_norm->shape[0]);
  shape.ffn = static_cast<int32_t>(down->shape[1]);
  shape.heads = static_cast<int32_t>(o->shape[1] / shape.head_dim);
  shape.fused_width = fusion->shape[1];
  int64_t kv_rows = 0;
  if (const auto fused = tensors.find("layers.0.self_attn.qkv_proj.weight"); fused != tensors.end() && fused->second->shape.size() == 2) {
    kv_rows = (fused->second->shape[0] - o->shape[1]) / 2;
  } else if (const TensorEntry* k = find(named(Role::kK), 2)) {
    kv_rows = k->shape[0];
  } else {
    return missing;
  }
  shape.kv_heads = static_cast<int32_t>(kv_rows / shape.head_dim);
  while (tensors.contains(drafter_name(checkpoint.kind(), Role::kAttnNorm, shape.layers, "weight"))) ++shape.layers;
  if (shape.layers < 1 || shape.heads < 1 || shape.kv_heads < 1)
    return corrupt("drafter: the tensors of " + checkpoint.path() + " are of " + std::to_string(shape.layers) + " layers with " +
                   std::to_string(shape.heads) + " heads and " + std::to_string(shape.kv_heads) + " key/value heads of " +
                   std::to_string(shape.head_dim) + "; a DFlash drafter has at least one of each");
  return shape;
}

std::vector<DummyTensor> drafter_tensors(const DrafterConfig& config, DType matrices) {
  const ModelConfig& s = config.stack;
  std::vector<DummyTensor> tensors;
  const auto add = [&](Role role, int32_t layer, std::vector<int64_t> shape) {
    const DType dtype = shape.size() > 1 ? matrices : s.weights_dtype;
    tensors.push_back({drafter_name(CheckpointKind::kSafetensors, role, layer, "weight"), dtype, std::move(shape)});
  };
  const int64_t hidden = s.hidden, q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim;
  add(Role::kFusion, 0, {hidden, static_cast<int64_t>(config.taps.size()) * config.target_hidden});
  add(Role::kFusionNorm, 0, {hidden});
  for (int32_t l = 0; l < s.layers; ++l) {
    add(Role::kAttnNorm, l, {hidden});
    add(Role::kQ, l, {q, hidden});
    add(Role::kK, l, {kv, hidden});
    add(Role::kV, l, {kv, hidden});
    add(Role::kQNorm, l, {s.head_dim});
    add(Role::kKNorm, l, {s.head_dim});
    add(Role::kO, l, {hidden, q});
    add(Role::kMlpNorm, l, {hidden});
    add(Role::kGate, l, {s.ffn, hidden});
    add(Role::kUp, l, {s.ffn, hidden});
    add(Role::kDown, l, {hidden, s.ffn});
  }
  add(Role::kOutputNorm, 0, {hidden});
  return tensors;
}

namespace {

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

/// Some rows of two float matrices of one shape, within the rounding of the coarser format.
bool rows_agree(const TensorEntry& a, const TensorEntry& b) {
  const int64_t rows = a.shape[0], cols = a.shape[1];
  std::vector<float> x(static_cast<size_t>(cols)), y(x);
  for (const int64_t row : {int64_t{0}, rows / 3, rows / 2, rows - 1}) {
    dequantize_row(a.dtype, a.data + row * row_bytes(a.dtype, cols), x.data(), cols);
    dequantize_row(b.dtype, b.data + row * row_bytes(b.dtype, cols), y.data(), cols);
    for (size_t i = 0; i < x.size(); ++i)
      if (!(std::fabs(x[i] - y[i]) <= std::fabs(x[i]) / 128 + 1e-6f)) return false;
  }
  return true;
}

}  // namespace

Status check_borrowed_copies(const Checkpoint& drafter, const Checkpoint* target, std::vector<std::string>* notes) {
  for (const TensorEntry& copy : drafter.tensors()) {
    if (!is_borrowed(copy.name)) continue;
    const bool embedding = copy.name == "embed_tokens.weight" || copy.name == "token_embd.weight";
    const TensorEntry* own = nullptr;
    // A tied target has no head of its own.
    for (const Role role : {embedding ? Role::kEmbedding : Role::kOutput, Role::kEmbedding})
      if (own == nullptr && target != nullptr) own = target->find(tensor_name(target->kind(), role, 0));
    const bool present = own != nullptr && own->data != nullptr && copy.data != nullptr;
    const bool same_format = present && own->dtype == copy.dtype;
    const bool comparable = same_format || (present && is_float(own->dtype) && is_float(copy.dtype));
    if (own != nullptr && own->shape != copy.shape)
      return unsupported("drafter: tensor '" + copy.name + "' has shape " + shape_text(copy.shape) + ", the target's '" +
                             own->name + "' " + shape_text(own->shape) +
                             "; drafters with an embedding or head of their own are not served",
                         "speculative_config.model");
    if (comparable && (same_format ? std::memcmp(own->data, copy.data, copy.bytes) != 0 : !rows_agree(*own, copy)))
      return unsupported("drafter: tensor '" + copy.name + "' is not the target's '" + own->name +
                             "'; drafters with an embedding or head of their own are not served",
                         "speculative_config.model");
    if (notes != nullptr)
      notes->push_back("drafter: tensor '" + copy.name + "' is not read: the target's own is used" +
                       (comparable ? "" : own == nullptr ? " (not compared)" : " (not compared: the formats differ)"));
  }
  return Ok{};
}

}  // namespace slipstream
