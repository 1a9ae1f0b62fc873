#include "engine/cache/prefix_cache.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

const std::vector<int32_t> kText{1, 2, 3, 4, 5, 6, 7, 8};  // two blocks of four

/// Publishes every full block of `tokens`, as the scheduler would.
std::vector<int32_t> fill(PrefixCache* cache, BlockPool* pool, std::string_view salt, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> blocks;
  uint64_t parent = 0;
  for (size_t start = 0; start + 4 <= tokens.size(); start += 4) {
    blocks.push_back(pool->allocate());
    parent = cache->publish(salt, parent, std::span<const int32_t>(tokens).subspan(start, 4), blocks.back());
  }
  return blocks;
}

}  // namespace

TEST_CASE("a hit is the longest run of full blocks that leaves a token to compute") {
  BlockPool pool(8);
  PrefixCache cache(&pool, 4);
  const auto blocks = fill(&cache, &pool, "s", kText);
  REQUIRE(cache.find("s", kText).blocks == std::vector<int32_t>{blocks[0]});  // the last token is to be computed
  auto longer = kText;
  longer.push_back(9);
  REQUIRE(cache.find("s", longer).blocks == blocks);
  longer[6] = 100;
  REQUIRE(cache.find("s", longer).blocks == std::vector<int32_t>{blocks[0]});
  longer[0] = 100;
  REQUIRE(cache.find("s", longer).blocks.empty());
  REQUIRE(cache.find("s", std::vector<int32_t>{1, 2, 3, 4}).blocks.empty());
}

TEST_CASE("salts are partitions") {
  BlockPool pool(8);
  PrefixCache cache(&pool, 4);
  const auto a = fill(&cache, &pool, "a", kText);
  const std::vector<int32_t> query{1, 2, 3, 4, 5};
  REQUIRE(cache.find("b", query).blocks.empty());
  REQUIRE(cache.find("", query).blocks.empty());
  const auto b = fill(&cache, &pool, "b", kText);
  REQUIRE(cache.find("a", query).blocks == std::vector<int32_t>{a[0]});
  REQUIRE(cache.find("b", query).blocks == std::vector<int32_t>{b[0]});
}

TEST_CASE("equal content after another prefix is another block") {
  BlockPool pool(8);
  PrefixCache cache(&pool, 4);
  fill(&cache, &pool, "s", {1, 1, 1, 1, 5, 6, 7, 8});
  fill(&cache, &pool, "s", {2, 2, 2, 2});
  const std::vector<int32_t> query{2, 2, 2, 2, 5, 6, 7, 8, 9};
  REQUIRE(cache.find("s", query).blocks.size() == 1);
}

TEST_CASE("a second copy of a block stays private and an evicted or forgotten one is never hit") {
  BlockPool pool(3);
  PrefixCache cache(&pool, 4);
  const auto first = fill(&cache, &pool, "s", {1, 2, 3, 4});
  const auto twin = fill(&cache, &pool, "s", {1, 2, 3, 4});
  REQUIRE(cache.entries() == 1);
  pool.release(twin[0]);
  REQUIRE(pool.free() == 2);
  pool.release(first[0]);
  REQUIRE(pool.cached() == 1);
  for (int i = 0; i < 3; ++i) pool.allocate();
  REQUIRE(cache.entries() == 0);
  REQUIRE(cache.find("s", kText).blocks.empty());

  BlockPool other_pool(3);
  PrefixCache other(&other_pool, 4);
  const auto blocks = fill(&other, &other_pool, "s", {1, 2, 3, 4});
  other.forget(blocks[0]);
  REQUIRE(other.find("s", kText).blocks.empty());
  other_pool.release(blocks[0]);
  REQUIRE(other_pool.free() == 3);
}
