#include "server/bench/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace slipstream::bench {
namespace {

using nlohmann::ordered_json;

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, pattern, values...);
  return buffer;
}

ordered_json spread_json(const Spread& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p95", s.p95}, {"p99", s.p99}, {"max", s.max}, {"count", s.count}};
}

}  // namespace

std::string table_text(const std::vector<Summary>& summaries, double synthetic_length) {
  std::string out =
      "              TTFT ms            TPOT ms            ITL ms             e2e ms       output   total    requests\n"
      "streams    p50   p95   p99    p50   p95   p99    p50   p95   p99      p50     p95    tok/s   tok/s  ok     failed\n";
  for (const Summary& s : summaries) {
    out += format("%7d %6.0f%6.0f%6.0f %6.1f%6.1f%6.1f %6.1f%6.1f%6.1f ", s.concurrency, s.ttft_ms.p50, s.ttft_ms.p95,
                  s.ttft_ms.p99, s.tpot_ms.p50, s.tpot_ms.p95, s.tpot_ms.p99, s.itl_ms.p50, s.itl_ms.p95, s.itl_ms.p99);
    out += format("%8.0f%8.0f %8.1f%8.1f  %-6lld %lld", s.e2e_ms.p50, s.e2e_ms.p95, s.output_tokens_per_s,
                  s.total_tokens_per_s, static_cast<long long>(s.ok), static_cast<long long>(s.failed));
    if (synthetic_length > 0) out += format("  synthetic acceptance length %.2f", synthetic_length);
    out += "\n";
  }
  for (const Summary& s : summaries) {
    if (s.long_ttft_ms.count == 0) continue;
    out += format("%7d streams beside %lld long prompts (TTFT p50 %.0f ms): ITL while one was read p50 %.1f, p95 %.1f, p99 %.1f, ",
                  s.concurrency, static_cast<long long>(s.long_ttft_ms.count), s.long_ttft_ms.p50, s.beside_itl_ms.p50,
                  s.beside_itl_ms.p95, s.beside_itl_ms.p99);
    out += format("max %.1f ms (%lld gaps)\n", s.beside_itl_ms.max, static_cast<long long>(s.beside_itl_ms.count));
  }
  for (const Summary& s : summaries) {
    for (const std::string& error : s.errors) out += "failed with " + std::to_string(s.concurrency) + " streams: " + error + "\n";
    if (s.ok > 0 && !s.tokens_from_usage) out += "the server sends no usage: streamed pieces were counted as tokens\n";
  }
  return out;
}

std::string json_text(const Target& target, const Options& options, const std::vector<Summary>& summaries) {
  ordered_json runs = ordered_json::array();
  for (const Summary& s : summaries) {
    runs.push_back({{"concurrency", s.concurrency},
                    {"synthetic_acceptance_length", target.synthetic_length > 0 ? ordered_json(target.synthetic_length) : ordered_json(nullptr)},
                    {"ok", s.ok},
                    {"failed", s.failed},
                    {"wall_s", s.wall_s},
                    {"output_tokens", s.output_tokens},
                    {"prompt_tokens", s.prompt_tokens},
                    {"tokens_from", s.tokens_from_usage ? "usage" : "pieces"},
                    {"output_tokens_per_s", s.output_tokens_per_s},
                    {"total_tokens_per_s", s.total_tokens_per_s},
                    {"requests_per_s", s.requests_per_s},
                    {"ttft_ms", spread_json(s.ttft_ms)},
                    {"tpot_ms", spread_json(s.tpot_ms)},
                    {"itl_ms", spread_json(s.itl_ms)},
                    {"e2e_ms", spread_json(s.e2e_ms)},
                    {"long_prompt_ttft_ms", spread_json(s.long_ttft_ms)},
                    {"itl_beside_long_prompts_ms", spread_json(s.beside_itl_ms)},
                    {"errors", s.errors}});
  }
  const ordered_json out = {{"base_url", options.base_url},   {"path", target.path},
                            {"model", target.model},          {"max_tokens", options.max_tokens},
                            {"input_tokens", options.input_tokens},
                            {"long_prompt_tokens", options.long_prompt_tokens}, {"ignore_eos", options.ignore_eos},
                            {"temperature", options.temperature},   {"runs", runs}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string progress_text(const Progress& p) {
  const double rate = p.elapsed_s > 0 ? static_cast<double>(p.pieces) / p.elapsed_s : 0;
  return format("%d streams: %lld of %lld requests, %lld failed, %.0f pieces/s, %.0f s", p.concurrency,
                static_cast<long long>(p.finished), static_cast<long long>(p.requests), static_cast<long long>(p.failed),
                rate, p.elapsed_s);
}

}  // namespace slipstream::bench
