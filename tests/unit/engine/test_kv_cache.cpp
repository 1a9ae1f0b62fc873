#include <cstring>

#include "engine/cache/kv_cache.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("layers get their own blocks and groups") {
  auto ops = make_reference_ops();
  KvCacheShape shape;
  shape.groups = {{2, 3, 64, 0}, {1, 2, 32, 128}};
  shape.blocks = {5, 4};
  shape.dtype = DType::kF16;
  auto cache = KvCache::create(*ops, shape);
  REQUIRE(cache.ok());
  REQUIRE(cache->layers() == 3);
  REQUIRE(KvCache::block_bytes(shape.groups[0], 32, DType::kF16) == 2 * 2 * 3 * 32 * 64 * 2);
  REQUIRE(cache->bytes() == 5 * 24576 * 2 + 4 * 8192);
  REQUIRE(cache->layer(1).group == 0);
  REQUIRE(cache->layer(2).group == 1);
  REQUIRE(cache->layer(2).head_dim == 32);
  for (int32_t l = 0; l < 3; ++l)
    for (int32_t m = 0; m < l; ++m) REQUIRE(cache->layer(l).k != cache->layer(m).k);
}

TEST_CASE("copy_block copies every layer of the group and nothing else") {
  auto ops = make_reference_ops();
  KvCacheShape shape;
  shape.groups = {{2, 1, 32, 0}, {1, 1, 32, 0}};
  shape.blocks = {3, 3};
  shape.dtype = DType::kF32;
  auto cache = KvCache::create(*ops, shape);
  REQUIRE(cache.ok());
  const size_t block = 32 * 32;
  for (int32_t l = 0; l < 3; ++l)
    for (size_t i = 0; i < 3 * block; ++i) {
      static_cast<float*>(cache->layer(l).k)[i] = static_cast<float>(l * 10000) + static_cast<float>(i);
      static_cast<float*>(cache->layer(l).v)[i] = -static_cast<float>(i);
    }
  cache->copy_block(*ops, 0, 0, 2);
  for (int32_t l = 0; l < 3; ++l) {
    const float* k = static_cast<float*>(cache->layer(l).k);
    const float* v = static_cast<float*>(cache->layer(l).v);
    const size_t from = l < 2 ? 0 : 2 * block;
    for (size_t i = 0; i < block; ++i) {
      REQUIRE(k[2 * block + i] == static_cast<float>(l * 10000) + static_cast<float>(from + i));
      REQUIRE(v[2 * block + i] == -static_cast<float>(from + i));
      REQUIRE(k[block + i] == static_cast<float>(l * 10000) + static_cast<float>(block + i));
    }
  }
}

TEST_CASE("an fp8 cache takes a byte an element, is copied whole, and hands each layer its scales") {
  auto ops = make_reference_ops();
  KvCacheShape shape;
  shape.groups = {{2, 1, 32, 0}, {1, 1, 64, 0}};
  shape.blocks = {3, 2};
  shape.dtype = DType::kF8E4M3;
  shape.scales = {{0.5f, 0.25f}, {2.0f, 1.0f}, {3.0f, 4.0f}};
  auto cache = KvCache::create(*ops, shape);
  REQUIRE(cache.ok());
  REQUIRE(KvCache::block_bytes(shape.groups[0], 32, DType::kF8E4M3) == 2 * 2 * 32 * 32);
  REQUIRE(cache->bytes() == 3 * 4096 + 2 * 4096);
  for (int32_t l = 0; l < 3; ++l) {
    REQUIRE(cache->layer(l).dtype == DType::kF8E4M3);
    REQUIRE(cache->layer(l).k_scale == shape.scales[static_cast<size_t>(l)].k);
    REQUIRE(cache->layer(l).v_scale == shape.scales[static_cast<size_t>(l)].v);
  }
  auto* v = static_cast<uint8_t*>(cache->layer(1).v);
  for (int i = 0; i < 3 * 1024; ++i) v[i] = static_cast<uint8_t>(i / 7);
  cache->copy_block(*ops, 0, 2, 0);
  REQUIRE(std::memcmp(v, v + 2048, 1024) == 0);
  REQUIRE(v[1024] == static_cast<uint8_t>(1024 / 7));
  REQUIRE(v[2047] == static_cast<uint8_t>(2047 / 7));
}

TEST_CASE("impossible shapes are refused with the numbers") {
  auto ops = make_reference_ops();
  KvCacheShape shape;
  shape.groups = {{1, 1, 32, 0}};
  shape.blocks = {1};
  const auto refused = [&](auto change, const char* part) {
    KvCacheShape bad = shape;
    change(&bad);
    const auto result = KvCache::create(*ops, bad);
    REQUIRE(!result.ok());
    INFO(result.error().message);
    REQUIRE(result.error().message.find(part) != std::string::npos);
  };
  refused([](KvCacheShape* s) { s->block_tokens = 33; }, "33");
  refused([](KvCacheShape* s) { s->block_tokens = 0; }, "0 tokens");
  refused([](KvCacheShape* s) { s->dtype = DType::kQ4_0; }, "Q4_0");
  refused([](KvCacheShape* s) { s->scales = {{1, 1}}; }, "1 scales for 1 layers of BF16");
  refused([](KvCacheShape* s) { s->dtype = DType::kF8E4M3, s->scales = {{1, 1}, {1, 1}}; }, "2 scales for 1 layers");
  refused([](KvCacheShape* s) { s->blocks = {0}; }, "0 blocks");
  refused([](KvCacheShape* s) { s->blocks = {INT32_MAX}; s->groups[0].head_dim = 1 << 20; }, "2147483647");
  refused([](KvCacheShape* s) { s->blocks = {1, 1}; }, "1 groups");
}
