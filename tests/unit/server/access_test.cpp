#include "server/auth.h"
#include "server/cache_size.h"
#include "server/metrics.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

HttpRequest asking(const std::string& path, const std::string& header = "", const std::string& value = "") {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  if (!header.empty()) request.headers.emplace_back(header, value);
  return request;
}

}  // namespace

TEST_CASE("only health is open when a key is set") {
  const Auth auth = Auth::create({"k1", "k2"}, "", "").value();
  CHECK(auth.judge(asking("/health/ready")).allowed);
  CHECK(auth.judge(asking("/metrics")).allowed);
  CHECK_FALSE(auth.judge(asking("/v1/models")).allowed);
  CHECK_FALSE(auth.judge(asking("/healthy")).allowed);
  CHECK_FALSE(auth.judge(asking("/v1/models", "authorization", "Bearer k")).allowed);
  CHECK_FALSE(auth.judge(asking("/v1/models", "authorization", "Basic k1")).allowed);
  CHECK(auth.judge(asking("/v1/models", "authorization", "Bearer k1")).allowed);
  CHECK(auth.judge(asking("/v1/models", "authorization", "BEARER  k2 ")).allowed);
  CHECK(auth.judge(asking("/v1/models", "x-api-key", "k2")).allowed);
  const auto one = auth.judge(asking("/", "x-api-key", "k1")).key_salt, two = auth.judge(asking("/", "x-api-key", "k2")).key_salt;
  CHECK((one.size() == 16 && two.size() == 16 && one != two));
  const Auth open = Auth::create({}, "", "m").value();
  CHECK(open.judge(asking("/v1/models")).allowed);
  CHECK_FALSE(open.judge(asking("/metrics")).allowed);
  CHECK(open.judge(asking("/metrics", "x-api-key", "m")).allowed);
  CHECK_FALSE(Auth::create({" "}, "", "").ok());
  CHECK_FALSE(Auth::create({}, "/nonexistent", "").ok());
}

TEST_CASE("the cache follows memory, context and slots") {
  EngineConfig config;
  config.max_num_seqs = 4;
  config.block_size = 32;
  // room for everything: twice what the slots can fill
  config.gpu_memory_utilization = 0.5;
  CachePlan plan = plan_cache(config, 1024, 1000, int64_t{1} << 40).value();
  CHECK(plan.context == 1024);
  CHECK(plan.blocks == 32 * 4 * 2);
  // 100 blocks of memory (half of what is free): the context shrinks to what fits
  config.gpu_memory_utilization = 0.25;
  CHECK(plan_cache(config, 100000, 1000, 200 * 1000).value().blocks == 50);
  config.gpu_memory_utilization = 0.5;
  plan = plan_cache(config, 100000, 1000, 200 * 1000).value();
  CHECK(plan.blocks == 100);
  CHECK(plan.context == 3200);
  config.max_model_len = 2048;
  CHECK(plan_cache(config, 100000, 1000, 200 * 1000).value().context == 2048);
  config.max_model_len = 4096;
  const auto refused = plan_cache(config, 100000, 1000, 200 * 1000);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("3200") != std::string::npos);
  CHECK(refused.error().message.find("4096") != std::string::npos);
  config.max_model_len = 2000;
  CHECK_FALSE(plan_cache(config, 1024, 1000, int64_t{1} << 40).ok());
  config.max_model_len = 0;
  config.kv_cache_memory_bytes = 64 * 1000;
  CHECK(plan_cache(config, 1024, 1000, 64 * 1000).value().blocks == 64);
  const auto too_large = plan_cache(config, 1024, 1000, 64 * 1000 - 1);
  REQUIRE_FALSE(too_large.ok());
  CHECK(too_large.error().param == "kv-cache-memory-bytes");
  config.kv_cache_memory_bytes = 1;
  CHECK_FALSE(plan_cache(config, 1024, 1000, 64 * 1000).ok());
}

TEST_CASE("histograms are cumulative on the page") {
  Metrics metrics;
  metrics.queue_time.observe(0.3);    // on a bound: counts into it
  metrics.queue_time.observe(0.31);
  metrics.queue_time.observe(1e9);
  MetricsSnapshot snapshot;
  const std::string page = metrics.render("vllm", "m\"\n", snapshot);
  const auto has = [&](const std::string& text) { return page.find(text) != std::string::npos; };
  CHECK(has("vllm:request_queue_time_seconds_bucket{model_name=\"m\\\"\\n\",engine=\"0\",le=\"0.3\"} 1\n"));
  CHECK(has("le=\"0.5\"} 2\n"));
  CHECK(has("le=\"+Inf\"} 3\n"));
  CHECK(has("vllm:request_queue_time_seconds_count{model_name=\"m\\\"\\n\",engine=\"0\"} 3\n"));
  CHECK_FALSE(has("num_requests_running"));  // nothing is loaded yet
}
