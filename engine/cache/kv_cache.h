// The bytes of K and V: one pair of buffers per layer, cut into blocks (layout in kernels/ops.h). One per rank, worker
// thread only. Knows bytes and cache groups, no requests.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/model.h"
#include "kernels/ops.h"

namespace slipstream {

struct KvCacheShape {
  std::vector<CacheGroupSpec> groups;  // layers are numbered through the groups in order
  std::vector<int32_t> blocks;         // [groups]
  int32_t block_tokens = 32;           // a positive multiple of kAttentionTile
  DType dtype = DType::kBF16;          // kF32, kF16, kBF16 or kF8E4M3
  std::vector<CacheScale> scales;      // of kF8E4M3, per layer through the groups; empty: 1 everywhere
};

class KvCache final : public KvViews {
 public:
  /// Bytes of one block of `group` over all its layers, K and V.
  static int64_t block_bytes(const CacheGroupSpec& group, int32_t block_tokens, DType dtype);
  /// Refuses impossible shapes and sizes that overflow; `ops` must outlive the cache. A refused allocation throws
  /// DeviceError.
  static Result<KvCache> create(Ops& ops, const KvCacheShape& shape);

  KvLayer layer(int32_t index) const override { return layers_[static_cast<size_t>(index)]; }
  int32_t layers() const { return static_cast<int32_t>(layers_.size()); }
  int32_t groups() const { return static_cast<int32_t>(shape_.groups.size()); }
  int64_t bytes() const { return bytes_; }
  const KvCacheShape& shape() const { return shape_; }

  /// Throws DeviceError when a plan names a group or a block that does not exist.
  void require_blocks(int32_t group, std::span<const int32_t> blocks) const;
  /// Copies a block's K and V in every layer of `group`.
  void copy_block(Ops& ops, int32_t group, int32_t source, int32_t target) const;

 private:
  KvCacheShape shape_;
  std::vector<Buffer> buffers_;
  std::vector<KvLayer> layers_;
  int64_t bytes_ = 0;
};

}  // namespace slipstream
