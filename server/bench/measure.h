// What is measured, and how samples become figures. Definitions as the field's clients use them:
//   TTFT  request sent (connection included) to the first streamed piece of text
//   TPOT  (end-to-end latency - TTFT) / (output tokens - 1), per request; none for one token
//   ITL   gap between consecutive streamed pieces; a piece may hold several tokens, so it is not TPOT
//   e2e   request sent to the end of the stream
//   output tokens/s = output tokens of all requests / wall time; "total" adds the prompts' tokens
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream::bench {

/// One answered request, times in milliseconds.
struct Sample {
  double start_ms = 0;        // since the measurement's start
  double ttft_ms = 0;
  double e2e_ms = 0;
  std::vector<double> gaps_ms;
  int64_t pieces = 0;
  int64_t output_tokens = 0;  // usage's, or the pieces where the server sends no usage
  int64_t prompt_tokens = 0;
  bool tokens_from_usage = false;
  std::string finish_reason;
};

struct Spread {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

/// Linear interpolation between closest ranks, as numpy's default. Empty: all zero.
Spread spread_of(std::vector<double> values);

/// A stretch of a measurement, in milliseconds since its start.
struct Interval {
  double from_ms = 0, to_ms = 0;
};

/// The gaps of `samples` that overlap one of `intervals`.
std::vector<double> gaps_within(const std::vector<Sample>& samples, const std::vector<Interval>& intervals);

struct Summary {
  int concurrency = 0;
  int64_t ok = 0;
  int64_t failed = 0;
  double wall_s = 0;
  int64_t output_tokens = 0, prompt_tokens = 0;
  bool tokens_from_usage = true;
  double output_tokens_per_s = 0, total_tokens_per_s = 0, requests_per_s = 0;
  Spread ttft_ms, tpot_ms, itl_ms, e2e_ms;
  // with long prompts beside the streams: their own TTFT, and the streams' gaps while one was being read
  Spread long_ttft_ms, beside_itl_ms;
  std::vector<std::string> errors;  // the first few, distinct
};

Summary summarise(int concurrency, double wall_s, const std::vector<Sample>& samples,
                  const std::vector<std::string>& errors);

}  // namespace slipstream::bench
