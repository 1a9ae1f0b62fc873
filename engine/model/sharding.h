// How a decoder is cut for tensor parallelism: attention and key/value heads, MLP rows, and the virtual shards of
// row-parallel weights. Pure arithmetic on sizes; knows no tensor.
#pragma once

#include <cstdint>

#include "engine/base/result.h"
#include "engine/model/model_config.h"

namespace slipstream {

struct Slice {
  int64_t first = 0;
  int64_t count = 0;
};

/// What one rank holds of every layer.
struct RankShare {
  int32_t rank = 0, ranks = 1;
  Slice heads;     // of config.heads
  Slice kv_heads;  // of config.kv_heads; shared by several ranks when there are fewer than ranks
  Slice ffn;       // of config.ffn
};

/// kUnsupported, naming the numbers, when heads, key/value heads or MLP rows cannot be divided so.
Result<RankShare> rank_share(const ModelConfig& config, int32_t rank, int32_t ranks);

/// S = gcd(12, k / unit): how many chains the sum over k input features is cut in, whatever the number of ranks
/// (engine/README.md, exactness). 1 when k is not a multiple of unit.
int32_t virtual_shards(int64_t k, int64_t unit);

/// The unit of a row-parallel weight: `granule` (head_dim for the attention output, 32 for the MLP), widened so that
/// no shard cuts a block of the stored format.
int64_t shard_unit(int64_t granule, int32_t block_elements);

}  // namespace slipstream
