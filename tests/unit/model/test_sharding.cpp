#include "engine/model/sharding.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("virtual shards are gcd(12, k / unit)") {
  CHECK(virtual_shards(576, 64) == 3);      // SmolLM2 attention output: 9 heads
  CHECK(virtual_shards(1536, 32) == 12);    // SmolLM2 MLP: 48 blocks
  CHECK(virtual_shards(4096, 128) == 4);    // 32 heads
  CHECK(virtual_shards(14336, 32) == 4);    // 448 blocks
  CHECK(virtual_shards(14336, 256) == 4);   // 56 blocks of a K format
  CHECK(virtual_shards(5120, 128) == 4);    // 40 heads
  CHECK(virtual_shards(3072, 256) == 12);
  CHECK(virtual_shards(64, 16) == 4);
  CHECK(virtual_shards(100, 32) == 1);      // no whole units: one chain
}

TEST_CASE("a shard never cuts a stored block") {
  CHECK(shard_unit(32, 1) == 32);
  CHECK(shard_unit(32, 32) == 32);
  CHECK(shard_unit(32, 256) == 256);
  CHECK(shard_unit(64, 256) == 256);  // heads of 64 in a K format
  CHECK(shard_unit(16, 32) == 32);
  CHECK(shard_unit(80, 32) == 160);
  CHECK(shard_unit(128, 1) == 128);
}

TEST_CASE("ranks share heads, key/value heads and MLP rows without gaps") {
  ModelConfig c;
  c.heads = 12;
  c.kv_heads = 4;
  c.ffn = 96;
  for (const int32_t ranks : {1, 2, 4}) {
    int64_t head = 0, kv = 0, row = 0;
    for (int32_t r = 0; r < ranks; ++r) {
      const auto share = rank_share(c, r, ranks);
      REQUIRE(share.ok());
      CHECK(share->heads.first == head);
      CHECK(share->kv_heads.first == kv);
      CHECK(share->ffn.first == row);
      head += share->heads.count;
      kv += share->kv_heads.count;
      row += share->ffn.count;
    }
    CHECK(head == 12);
    CHECK(kv == 4);
    CHECK(row == 96);
  }
}

TEST_CASE("with fewer key/value heads than ranks each rank holds the head that its queries read") {
  ModelConfig c;
  c.heads = 12;
  c.kv_heads = 2;
  c.ffn = 96;
  for (int32_t r = 0; r < 4; ++r) {
    const auto share = rank_share(c, r, 4);
    REQUIRE(share.ok());
    CHECK(share->kv_heads.count == 1);
    for (int64_t h = share->heads.first; h < share->heads.first + share->heads.count; ++h)
      CHECK(h / 6 == share->kv_heads.first);  // six queries read one key/value head
  }
}

TEST_CASE("a size that does not divide is refused with the numbers") {
  ModelConfig c;
  c.heads = 9;
  c.kv_heads = 3;
  c.ffn = 1536;
  const auto two = rank_share(c, 0, 2);
  REQUIRE_FALSE(two.ok());
  CHECK(two.error().code == ErrorCode::kUnsupported);
  CHECK(two.error().message.find("size 2 does not divide 9 attention heads") != std::string::npos);
  CHECK(rank_share(c, 0, 3).ok());
  c.heads = 8;
  c.kv_heads = 4;
  c.ffn = 100;
  CHECK(rank_share(c, 0, 8).error().message.find("100 MLP rows") != std::string::npos);
  c.heads = 24;
  c.ffn = 96;
  CHECK(rank_share(c, 0, 6).error().message.find("4 key/value heads") != std::string::npos);
}
