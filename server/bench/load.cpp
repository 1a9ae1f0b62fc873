#include "server/bench/load.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/bench/prompts.h"
#include "server/bench/stream.h"

namespace slipstream::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

}  // namespace

Result<Sample> measure_request(const Target& target, const Options& options, const std::string& prompt,
                               const std::function<void()>& on_bytes) {
  const bool chat = options.api == "chat";
  HttpRequest request;
  request.method = "POST";
  request.path = target.path;
  request.api_key = options.api_key;
  request.body = request_body(target.model, chat, prompt, options.max_tokens, options.temperature, options.ignore_eos);
  AnswerStream answer(chat);
  std::string start_of_body;  // kept for the message of an error answer
  const Clock::time_point start = Clock::now();
  const auto status = send_request(target.url, request, int64_t{1000} * options.timeout_s, [&](std::string_view bytes) {
    answer.add(bytes, ms_since(start));
    if (start_of_body.size() < 4096) start_of_body += bytes.substr(0, 4096);
    on_bytes();
  });
  const double end_ms = ms_since(start);
  if (!status.ok()) return status.error();
  if (*status != 200) return io_error("HTTP " + std::to_string(*status) + ": " + error_text(start_of_body));
  return answer.finish(end_ms);
}

Summary run_load(const Target& target, const Options& options, int concurrency, int64_t requests, int64_t first_index,
                 const std::function<void(const Progress&)>& report) {
  std::atomic<int64_t> next{0}, pieces{0};
  std::mutex mutex;  // guards samples, errors, running
  std::condition_variable changed;
  std::vector<Sample> samples;
  std::vector<std::string> errors;
  int running = concurrency;

  const Clock::time_point start = Clock::now();
  const auto stream = [&] {
    for (int64_t i; (i = next.fetch_add(1)) < requests;) {
      const std::string prompt =
          options.prompt.empty() ? prompt_text(first_index + i, options.input_tokens, options.seed) : options.prompt;
      auto sample = measure_request(target, options, prompt, [&] { pieces.fetch_add(1, std::memory_order_relaxed); });
      const std::lock_guard lock(mutex);
      if (sample.ok()) {
        samples.push_back(std::move(*sample));
      } else {
        errors.push_back(sample.error().message);
      }
    }
    const std::lock_guard lock(mutex);
    --running;
    changed.notify_one();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < concurrency; ++i) threads.emplace_back(stream);
  {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(200), [&] { return running == 0; })) {
      const Progress progress{concurrency,
                              requests,
                              static_cast<int64_t>(samples.size() + errors.size()),
                              static_cast<int64_t>(errors.size()),
                              pieces.load(),
                              ms_since(start) / 1000};
      lock.unlock();
      report(progress);
      lock.lock();
    }
  }
  const double wall_s = ms_since(start) / 1000;
  for (std::thread& thread : threads) thread.join();
  return summarise(concurrency, wall_s, samples, errors);
}

}  // namespace slipstream::bench
