// The Prometheus registry: counters and histograms of the HTTP side, gauges read from the engine when scraped. Owns
// names, types and the text format. Thread-safe; updates are atomics.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/run/engine.h"
#include "server/memory_plan.h"

namespace slipstream {

/// Cumulative buckets in Prometheus' sense, plus sum and count.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  const std::vector<double>& bounds() const { return bounds_; }
  /// Per bucket, not cumulative; the last is +Inf.
  std::vector<uint64_t> counts() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0};
};

/// What a scrape reads besides the registry's own numbers.
struct MetricsSnapshot {
  EngineStats engine;
  int32_t block_tokens = 0;
  std::string cache_dtype;      // "BF16"
  int32_t max_num_seqs = 0;
  int32_t max_batched_tokens = 0;
  bool prefix_caching = false;
  bool loaded = false;          // false: only HTTP series
  bool ready = false;
  int64_t connections = 0, refused_busy = 0, timed_out = 0, malformed = 0;
  int64_t log_failures = 0;
  std::vector<MemoryLine> memory;
};

class Metrics {
 public:
  Metrics();

  /// `prefix` "slipstream" or "vllm"; series are prefix:name with labels model_name and engine.
  std::string render(std::string_view prefix, std::string_view model_name, const MetricsSnapshot& snapshot) const;

  // ---- generation calls, observed when they end ----
  Histogram request_prompt_tokens, request_generation_tokens, request_max_num_generation_tokens, request_params_n,
      request_params_max_tokens, time_to_first_token, inter_token_latency, time_per_output_token, e2e_latency,
      queue_time, inference_time, prefill_time, decode_time, num_preemptions, iteration_tokens;
  std::atomic<int64_t> success_stop{0}, success_length{0}, success_abort{0}, success_error{0};
  std::atomic<int64_t> client_disconnected{0}, unknown_fields{0};

  /// One finished HTTP exchange. `route` is one of the routes' own names, never the client's text.
  void count_http(std::string_view route, int status);

 private:
  mutable std::mutex http_mutex_;
  std::map<std::pair<std::string, int>, int64_t> http_;
};

}  // namespace slipstream
