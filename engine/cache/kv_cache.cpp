#include "engine/cache/kv_cache.h"

#include <algorithm>

namespace slipstream {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

Status check_shape(const KvCacheShape& shape) {
  if (shape.groups.empty() || shape.groups.size() != shape.blocks.size())
    return internal_error("KV cache: " + std::to_string(shape.groups.size()) + " groups but " +
                          std::to_string(shape.blocks.size()) + " block counts");
  if (shape.block_tokens <= 0 || shape.block_tokens % kAttentionTile != 0)
    return invalid_argument("KV cache block size is " + std::to_string(shape.block_tokens) +
                                " tokens; use a positive multiple of " + std::to_string(kAttentionTile),
                            "block_size");
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kBF16 && shape.dtype != DType::kF8E4M3)
    return unsupported("KV cache dtype " + std::string(dtype_info(shape.dtype).name) +
                           " is not served; use F32, F16, BF16 or F8_E4M3",
                       "kv_cache_dtype");
  size_t layers = 0;
  for (const CacheGroupSpec& group : shape.groups) layers += static_cast<size_t>(std::max(group.layers, 0));
  if (!shape.scales.empty() && (shape.scales.size() != layers || shape.dtype != DType::kF8E4M3))
    return internal_error("KV cache: " + std::to_string(shape.scales.size()) + " scales for " + std::to_string(layers) +
                          " layers of " + std::string(dtype_info(shape.dtype).name));
  for (size_t g = 0; g < shape.groups.size(); ++g) {
    const CacheGroupSpec& group = shape.groups[g];
    if (group.layers <= 0 || group.kv_heads <= 0 || group.head_dim <= 0 || shape.blocks[g] <= 0)
      return invalid_argument("KV cache group " + std::to_string(g) + ": " + std::to_string(group.layers) +
                              " layers, " + std::to_string(group.kv_heads) + " heads of " +
                              std::to_string(group.head_dim) + ", " + std::to_string(shape.blocks[g]) +
                              " blocks; each must be positive");
  }
  return Ok{};
}

}  // namespace

int64_t KvCache::block_bytes(const CacheGroupSpec& group, int32_t block_tokens, DType dtype) {
  return int64_t{2} * group.layers * group.kv_heads * block_tokens * row_bytes(dtype, group.head_dim);
}

Result<KvCache> KvCache::create(Ops& ops, const KvCacheShape& shape) {
  SLIP_RETURN_IF_ERROR(check_shape(shape));
  KvCache cache;
  cache.shape_ = shape;
  for (size_t g = 0; g < shape.groups.size(); ++g) {
    const CacheGroupSpec& group = shape.groups[g];
    uint64_t half = static_cast<uint64_t>(row_bytes(shape.dtype, group.head_dim));
    for (int32_t factor : {shape.block_tokens, group.kv_heads, shape.blocks[g]})
      if (!checked_mul(half, static_cast<uint64_t>(factor), &half) || half > kMaxBytes)
        return invalid_argument("KV cache of " + std::to_string(shape.blocks[g]) + " blocks passes " +
                                std::to_string(kMaxBytes) + " bytes per layer; use fewer blocks");
    for (int32_t l = 0; l < group.layers; ++l) {
      KvLayer layer;
      cache.buffers_.push_back(ops.allocate(static_cast<size_t>(half)));
      layer.k = cache.buffers_.back().data();
      cache.buffers_.push_back(ops.allocate(static_cast<size_t>(half)));
      layer.v = cache.buffers_.back().data();
      layer.dtype = shape.dtype;
      layer.kv_heads = group.kv_heads;
      layer.head_dim = group.head_dim;
      layer.block_tokens = shape.block_tokens;
      layer.group = static_cast<int32_t>(g);
      layer.blocks = shape.blocks[g];
      if (!shape.scales.empty()) {
        layer.k_scale = shape.scales[cache.layers_.size()].k;
        layer.v_scale = shape.scales[cache.layers_.size()].v;
      }
      cache.layers_.push_back(layer);
      cache.bytes_ += 2 * static_cast<int64_t>(half);
    }
  }
  ops.plan_cache(cache.layers_.front());
  return cache;
}

void KvCache::require_blocks(int32_t group, std::span<const int32_t> blocks) const {
  for (const int32_t block : blocks)
    if (group < 0 || group >= groups() || block < 0 || block >= shape_.blocks[static_cast<size_t>(group)])
      throw DeviceError("plan: block " + std::to_string(block) + " of cache group " + std::to_string(group) + " does not exist");
}

void KvCache::copy_block(Ops& ops, int32_t group, int32_t source, int32_t target) const {
  for (const KvLayer& layer : layers_)
    if (layer.group == group) ops.copy_kv_block(layer, source, target);
}

}  // namespace slipstream
