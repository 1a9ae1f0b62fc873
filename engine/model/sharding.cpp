// See sharding.h.
#include "engine/model/sharding.h"

#include <numeric>

namespace slipstream {

Result<RankShare> rank_share(const ModelConfig& c, int32_t rank, int32_t ranks) {
  CHECK(ranks >= 1 && rank >= 0 && rank < ranks, "rank outside the group");
  const std::string tp = "tensor parallel size " + std::to_string(ranks);
  if (c.heads % ranks != 0)
    return unsupported(tp + " does not divide " + std::to_string(c.heads) + " attention heads", "tensor_parallel_size");
  if (c.kv_heads % ranks != 0 && ranks % c.kv_heads != 0)
    return unsupported(tp + " neither divides nor is a multiple of " + std::to_string(c.kv_heads) + " key/value heads",
                       "tensor_parallel_size");
  if (c.ffn % ranks != 0)
    return unsupported(tp + " does not divide " + std::to_string(c.ffn) + " MLP rows", "tensor_parallel_size");
  RankShare share;
  share.rank = rank;
  share.ranks = ranks;
  share.heads = {static_cast<int64_t>(rank) * (c.heads / ranks), c.heads / ranks};
  // With fewer key/value heads than ranks, neighbours hold the same head.
  share.kv_heads = c.kv_heads % ranks == 0
                       ? Slice{static_cast<int64_t>(rank) * (c.kv_heads / ranks), c.kv_heads / ranks}
                       : Slice{static_cast<int64_t>(rank) * c.kv_heads / ranks, 1};
  share.ffn = {static_cast<int64_t>(rank) * (c.ffn / ranks), c.ffn / ranks};
  return share;
}

int32_t virtual_shards(int64_t k, int64_t unit) {
  return k % unit != 0 ? 1 : static_cast<int32_t>(std::gcd(int64_t{12}, k / unit));
}

int64_t shard_unit(int64_t granule, int32_t block_elements) {
  return std::lcm(granule, static_cast<int64_t>(block_elements));
}

}  // namespace slipstream
