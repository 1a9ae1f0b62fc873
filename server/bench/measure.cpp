#include "server/bench/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace slipstream::bench {
namespace {

constexpr size_t kShownErrors = 5;

double percentile(const std::vector<double>& sorted, double percent) {
  const double rank = static_cast<double>(sorted.size() - 1) * percent / 100.0;
  const auto low = static_cast<size_t>(std::floor(rank));
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (rank - static_cast<double>(low));
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  Spread out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  out.count = static_cast<int64_t>(values.size());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  out.p50 = percentile(values, 50);
  out.p90 = percentile(values, 90);
  out.p95 = percentile(values, 95);
  out.p99 = percentile(values, 99);
  out.max = values.back();
  return out;
}

std::vector<double> gaps_within(const std::vector<Sample>& samples, const std::vector<Interval>& intervals) {
  std::vector<double> out;
  for (const Sample& sample : samples) {
    double at = sample.start_ms + sample.ttft_ms;
    for (const double gap : sample.gaps_ms) {
      const double end = at + gap;
      if (std::any_of(intervals.begin(), intervals.end(), [&](const Interval& i) { return i.from_ms < end && at < i.to_ms; }))
        out.push_back(gap);
      at = end;
    }
  }
  return out;
}

Summary summarise(int concurrency, double wall_s, const std::vector<Sample>& samples,
                  const std::vector<std::string>& errors) {
  Summary out;
  out.concurrency = concurrency;
  out.ok = static_cast<int64_t>(samples.size());
  out.failed = static_cast<int64_t>(errors.size());
  out.wall_s = wall_s;
  std::vector<double> ttft, tpot, itl, e2e;
  for (const Sample& sample : samples) {
    out.output_tokens += sample.output_tokens;
    out.prompt_tokens += sample.prompt_tokens;
    out.tokens_from_usage = out.tokens_from_usage && sample.tokens_from_usage;
    ttft.push_back(sample.ttft_ms);
    e2e.push_back(sample.e2e_ms);
    if (sample.output_tokens > 1) {
      tpot.push_back((sample.e2e_ms - sample.ttft_ms) / static_cast<double>(sample.output_tokens - 1));
    }
    itl.insert(itl.end(), sample.gaps_ms.begin(), sample.gaps_ms.end());
  }
  if (wall_s > 0) {
    out.output_tokens_per_s = static_cast<double>(out.output_tokens) / wall_s;
    out.total_tokens_per_s = static_cast<double>(out.output_tokens + out.prompt_tokens) / wall_s;
    out.requests_per_s = static_cast<double>(out.ok) / wall_s;
  }
  out.ttft_ms = spread_of(std::move(ttft));
  out.tpot_ms = spread_of(std::move(tpot));
  out.itl_ms = spread_of(std::move(itl));
  out.e2e_ms = spread_of(std::move(e2e));
  for (const std::string& error : errors) {
    if (out.errors.size() == kShownErrors) break;
    if (std::find(out.errors.begin(), out.errors.end(), error) == out.errors.end()) out.errors.push_back(error);
  }
  return out;
}

}  // namespace slipstream::bench
