// See metrics.h. Names and types follow vLLM's, so that its dashboards and the gateways that read them work unchanged
// under the prefix "vllm".
#include "server/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "server/json_text.h"

namespace slipstream {
namespace {

std::vector<double> token_bounds() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
}
std::vector<double> first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
}
std::vector<double> gap_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}
std::vector<double> request_bounds() {
  return {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}
std::vector<double> step_bounds() { return {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}; }

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

/// A label value with its quotes.
std::string label(std::string_view text) {
  std::string out = "\"";
  for (const char c : json_text::replace_invalid_utf8(text)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out + "\"";
}

/// Writes families; every series carries the same base labels.
class Page {
 public:
  Page(std::string_view prefix, std::string base) : prefix_(prefix), base_(std::move(base)) {}

  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ += "# HELP " + prefix_ + ":" + std::string(name) + " " + std::string(help) + "\n# TYPE " + prefix_ + ":" +
            std::string(name) + " " + std::string(type) + "\n";
  }
  void sample(std::string_view name, double value, std::string_view more = "") {
    out_ += prefix_ + ":" + std::string(name) + "{" + base_ + (more.empty() ? "" : ",") + std::string(more) + "} " +
            number(value) + "\n";
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    head(name, "gauge", help);
    sample(name, value);
  }
  void counter(std::string_view name, std::string_view help, int64_t value) {
    head(name, "counter", help);
    sample(name, static_cast<double>(value));
  }
  void histogram(const std::string& name, std::string_view help, const Histogram& h) {
    head(name, "histogram", help);
    const auto counts = h.counts();
    uint64_t total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      total += counts[i];
      const double bound = i < h.bounds().size() ? h.bounds()[i] : INFINITY;
      sample(name + "_bucket", static_cast<double>(total), "le=\"" + number(bound) + "\"");
    }
    sample(name + "_sum", h.sum());
    sample(name + "_count", static_cast<double>(total));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string prefix_, base_, out_;
};

/// Beside vLLM's four: what they leave open about a drafter.
void write_speculation(Page& page, const EngineStats& e) {
  page.head("spec_decode_num_draft_tokens_per_pos_total", "counter", "Draft tokens verified, by position; the rate of a position is accepted over this.");
  for (size_t i = 0; i < e.drafted_per_position.size(); ++i)
    page.sample("spec_decode_num_draft_tokens_per_pos_total", static_cast<double>(e.drafted_per_position[i]),
                "position=\"" + std::to_string(i) + "\"");
  page.gauge("spec_decode_acceptance_length", "Mean tokens of a verified round since the start: accepted drafts and one more; 0 before the first.",
             e.acceptance_length());
  page.head("spec_decode_width_total", "counter", "Decode spans by drafts verified in them.");
  for (size_t i = 0; i < e.draft_widths.size(); ++i)
    page.sample("spec_decode_width_total", static_cast<double>(e.draft_widths[i]), "width=\"" + std::to_string(i) + "\"");
  page.head("spec_decode_undrafted_total", "counter", "Decode spans that got no drafts, by why.");
  for (size_t i = 0; i < kUndraftedReasons.size(); ++i)
    page.sample("spec_decode_undrafted_total", static_cast<double>(e.undrafted[i]), "reason=\"" + std::string(kUndraftedReasons[i]) + "\"");
  page.head("spec_decode_seconds_total", "counter", "Time of steps with drafts, by part; 0 where a device does not time them apart.");
  page.sample("spec_decode_seconds_total", e.draft_s, "part=\"draft\"");
  page.sample("spec_decode_seconds_total", e.verify_s, "part=\"verify\"");
  page.sample("spec_decode_seconds_total", e.commit_s, "part=\"commit\"");
}

void write_engine(Page& page, const MetricsSnapshot& s) {
  const EngineStats& e = s.engine;
  page.gauge("num_requests_running", "Requests in the batch.", static_cast<double>(e.running));
  page.gauge("num_requests_waiting", "Requests in the queue.", static_cast<double>(e.waiting));
  page.head("num_requests_waiting_by_reason", "gauge", "Requests in the queue, by why they wait.");
  page.sample("num_requests_waiting_by_reason", static_cast<double>(e.waiting), "reason=\"capacity\"");
  page.gauge("num_tokens_waiting", "Prompt tokens in the queue.", static_cast<double>(e.waiting_tokens));
  page.gauge("kv_cache_usage_perc", "Share of cache blocks in use; 1 is full.",
             e.blocks_total > 0 ? static_cast<double>(e.blocks_used) / static_cast<double>(e.blocks_total) : 0);
  page.head("kv_blocks", "gauge", "Cache blocks by state.");
  page.sample("kv_blocks", static_cast<double>(e.blocks_free), "state=\"free\"");
  page.sample("kv_blocks", static_cast<double>(e.blocks_cached), "state=\"cached\"");
  page.sample("kv_blocks", static_cast<double>(e.blocks_used), "state=\"used\"");
  page.counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", e.prefix_queries_tokens);
  page.counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", e.prefix_hit_tokens);
  page.counter("num_preemptions_total", "Sequences put back into the queue for want of blocks.", e.preemptions);
  page.counter("prompt_tokens_total", "Prompt tokens processed.", e.prompt_tokens);
  page.counter("generation_tokens_total", "Tokens generated.", e.generated_tokens);
  page.counter("steps_total", "Engine steps.", e.steps);
  page.gauge("last_step_age_seconds", "Since a step finished; 0 when idle.", e.last_step_age_s);
  page.counter("non_finite_rows_total", "Rows whose logits were not finite; their requests failed.", e.non_finite_rows);
  page.counter("invariant_failures_total", "Failed integrity checks.", e.invariant_failures);
  page.head("memory_bytes", "gauge", "Memory by kind, as planned before loading and as taken.");
  for (const MemoryLine& line : s.memory) {
    page.sample("memory_bytes", static_cast<double>(line.planned), "kind=\"" + line.kind + "\",state=\"planned\"");
    page.sample("memory_bytes", static_cast<double>(line.actual), "kind=\"" + line.kind + "\",state=\"actual\"");
  }
  page.head("cache_config_info", "gauge", "The cache's configuration; the value is always 1.");
  page.sample("cache_config_info", 1,
              "cache_dtype=\"" + s.cache_dtype + "\",block_size=\"" + std::to_string(s.block_tokens) + "\",num_gpu_blocks=\"" +
                  std::to_string(e.blocks_total) + "\",kv_cache_size_tokens=\"" +
                  std::to_string(e.blocks_total * s.block_tokens) + "\",enable_prefix_caching=\"" +
                  (s.prefix_caching ? "True" : "False") + "\"");
  page.counter("spec_decode_num_drafts_total", "Drafts verified.", e.drafts);
  page.counter("spec_decode_num_draft_tokens_total", "Draft tokens verified.", e.draft_tokens);
  page.counter("spec_decode_num_accepted_tokens_total", "Draft tokens accepted.", e.accepted_tokens);
  page.counter("spec_decode_probes_total", "Steps in which a sequence got more drafts than seemed worth it, to see whether they are.", e.draft_probes);
  page.counter("constraint_masked_rows_total", "Rows drawn under a token mask.", e.masked_rows);
  page.head("constraint_mask_seconds_total", "counter", "Time spent on token masks, while forward passes ran.");
  page.sample("constraint_mask_seconds_total", e.mask_s);
  page.counter("constraint_forced_tokens_total", "Tokens verified as drafts because a constraint foresaw them.", e.forced_drafts);
  page.counter("constraint_forced_tokens_accepted_total", "Of these, accepted.", e.forced_accepted);
  page.counter("constraint_dead_ends_total", "Choices that failed because their constraint allowed no token.", e.constraint_dead_ends);
  page.head("spec_decode_num_accepted_tokens_per_pos_total", "counter", "Draft tokens accepted, by position.");
  for (size_t i = 0; i < e.accepted_per_position.size(); ++i)
    page.sample("spec_decode_num_accepted_tokens_per_pos_total", static_cast<double>(e.accepted_per_position[i]),
                "position=\"" + std::to_string(i) + "\"");
  write_speculation(page, e);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  double sum = sum_.load(std::memory_order_relaxed);
  while (!sum_.compare_exchange_weak(sum, sum + value, std::memory_order_relaxed)) {
  }
}

std::vector<uint64_t> Histogram::counts() const {
  std::vector<uint64_t> out(bounds_.size() + 1);
  for (size_t i = 0; i < out.size(); ++i) out[i] = counts_[i].load(std::memory_order_relaxed);
  return out;
}

Metrics::Metrics()
    : request_prompt_tokens(token_bounds()), request_generation_tokens(token_bounds()),
      request_max_num_generation_tokens(token_bounds()), request_params_n({1, 2, 5, 10, 20}),
      request_params_max_tokens(token_bounds()), time_to_first_token(first_token_bounds()),
      inter_token_latency(gap_bounds()), time_per_output_token(gap_bounds()), e2e_latency(request_bounds()),
      queue_time(request_bounds()), inference_time(request_bounds()), prefill_time(request_bounds()),
      decode_time(request_bounds()), num_preemptions({0, 1, 2, 5, 10, 20, 50, 100}), iteration_tokens(step_bounds()) {}

void Metrics::count_http(std::string_view route, int status) {
  std::lock_guard lock(http_mutex_);
  ++http_[{std::string(route), status}];
}

std::string Metrics::render(std::string_view prefix, std::string_view model_name, const MetricsSnapshot& s) const {
  Page page(prefix, "model_name=" + label(model_name) + ",engine=\"0\"");
  page.gauge("ready", "1 when new requests are taken.", s.ready ? 1 : 0);
  if (s.loaded) write_engine(page, s);

  page.head("request_success_total", "counter", "Finished requests, by reason.");
  page.sample("request_success_total", static_cast<double>(success_stop), "finished_reason=\"stop\"");
  page.sample("request_success_total", static_cast<double>(success_length), "finished_reason=\"length\"");
  page.sample("request_success_total", static_cast<double>(success_abort), "finished_reason=\"abort\"");
  page.sample("request_success_total", static_cast<double>(success_error), "finished_reason=\"error\"");

  page.histogram("iteration_tokens_total", "Tokens per engine step.", iteration_tokens);
  page.histogram("request_prompt_tokens", "Prompt tokens per request.", request_prompt_tokens);
  page.histogram("request_generation_tokens", "Output tokens per request.", request_generation_tokens);
  page.histogram("request_max_num_generation_tokens", "Output tokens of the longest choice.",
                 request_max_num_generation_tokens);
  page.histogram("request_params_n", "The parameter n.", request_params_n);
  page.histogram("request_params_max_tokens", "The parameter max_tokens.", request_params_max_tokens);
  page.histogram("time_to_first_token_seconds", "From arrival to the first token.", time_to_first_token);
  page.histogram("inter_token_latency_seconds", "Between steps that brought a request's tokens.", inter_token_latency);
  page.histogram("request_time_per_output_token_seconds", "Mean per request, the first token excluded.",
                 time_per_output_token);
  page.histogram("e2e_request_latency_seconds", "From arrival to the end.", e2e_latency);
  page.histogram("request_queue_time_seconds", "In the queue.", queue_time);
  page.histogram("request_inference_time_seconds", "Prefill and decode.", inference_time);
  page.histogram("request_prefill_time_seconds", "Prefill.", prefill_time);
  page.histogram("request_decode_time_seconds", "Decode.", decode_time);
  page.histogram("request_num_preemptions", "Preemptions per request.", num_preemptions);

  page.counter("http_requests_client_disconnected_total", "Requests whose client left early.", client_disconnected);
  page.counter("request_unknown_fields_total", "Unknown JSON fields that were ignored.", unknown_fields);
  page.head("http_requests_total", "counter", "Finished HTTP exchanges.");
  {
    std::lock_guard lock(http_mutex_);
    for (const auto& [key, count] : http_)
      page.sample("http_requests_total", static_cast<double>(count),
                  "route=" + label(key.first) + ",status=\"" + std::to_string(key.second) + "\"");
  }
  page.gauge("http_connections", "Open connections.", static_cast<double>(s.connections));
  page.counter("http_refused_busy_total", "Connections or requests refused for want of workers.", s.refused_busy);
  page.counter("http_timed_out_total", "Requests that did not arrive, and answers that were not read, in time.", s.timed_out);
  page.counter("http_malformed_total", "Requests that broke HTTP.", s.malformed);
  return page.take();
}

}  // namespace slipstream
