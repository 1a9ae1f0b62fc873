#include "server/bench.h"

#include <cstdio>

#include "server/bench/load.h"
#include "server/bench/options.h"
#include "server/bench/prompts.h"
#include "server/bench/report.h"
#include "server/bench/stream.h"
#include "server/progress_line.h"

namespace slipstream {
namespace {

using namespace bench;

constexpr int kGood = 0, kSomeFailed = 1, kBad = 2;
constexpr int64_t kModelsTimeoutMs = 10'000;

/// Our server says in /v1/info whether it makes its acceptance up; others have no such route.
double synthetic_length(const Url& url, const std::string& root, const Options& options) {
  HttpRequest request;
  request.path = root + "/info";
  request.api_key = options.api_key;
  std::string body;
  const auto status = send_request(url, request, kModelsTimeoutMs, [&](std::string_view bytes) { body += bytes; });
  return status.ok() && *status == 200 ? synthetic_length_of(body) : 0;
}

Result<Target> find_target(const Options& options) {
  Target target;
  SLIP_TRY(target.url, parse_url(options.base_url));
  const std::string root = target.url.path.ends_with("/v1") ? target.url.path : target.url.path + "/v1";
  target.path = root + (options.api == "chat" ? "/chat/completions" : "/completions");
  target.model = options.model;
  target.synthetic_length = synthetic_length(target.url, root, options);
  if (!target.model.empty()) return target;
  HttpRequest request;
  request.path = root + "/models";
  request.api_key = options.api_key;
  std::string body;
  SLIP_TRY(const int status, send_request(target.url, request, kModelsTimeoutMs,
                                          [&](std::string_view bytes) { body += bytes; }));
  if (status != 200) return io_error(request.path + " answers HTTP " + std::to_string(status) + ": " + error_text(body));
  SLIP_TRY(target.model, first_model(body));
  return target;
}

}  // namespace

int run_bench(const std::vector<std::string>& args) {
  const Parsed parsed = parse_options(args);
  if (parsed.stop) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const Options& options = parsed.options;
  if (!options.forward.model.empty()) return run_forward(options.forward);
  const auto target = find_target(options);
  if (!target.ok()) {
    std::fprintf(stderr, "error: %s\n", target.error().message.c_str());
    return kBad;
  }
  std::vector<Summary> summaries;
  ProgressLine line;
  int64_t index = 0;
  for (const int concurrency : options.concurrency) {
    const int64_t requests = options.requests > 0 ? options.requests : int64_t{4} * concurrency;
    for (int i = 0; i < options.warmup; ++i) {
      line.show("warming up");
      const std::string prompt =
          options.prompt.empty() ? prompt_text(index++, options.input_tokens, options.seed) : options.prompt;
      const auto sample = measure_request(*target, options, prompt, [] {});
      if (sample.ok()) continue;
      line.clear();
      std::fprintf(stderr, "error: the warm-up request failed: %s\n", sample.error().message.c_str());
      return kBad;
    }
    summaries.push_back(run_load(*target, options, concurrency, requests, index,
                                 [&](const Progress& progress) { line.show(progress_text(progress)); }));
    index += requests;
  }
  line.clear();
  if (!options.json) std::printf("%s, model %s, at most %d tokens out\n\n", target->path.c_str(), target->model.c_str(), options.max_tokens);
  std::fputs((options.json ? json_text(*target, options, summaries) : table_text(summaries, target->synthetic_length)).c_str(), stdout);
  for (const Summary& summary : summaries) {
    if (summary.failed > 0 || summary.ok == 0) return kSomeFailed;
  }
  return kGood;
}

}  // namespace slipstream
