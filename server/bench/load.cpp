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

namespace {

/// Long prompts, one after another with a pause between, until the streams have ended.
class LongPrompts {
 public:
  LongPrompts(const Target& target, const Options& options, int64_t first_index, Clock::time_point start)
      : target_(target), options_(options), index_(first_index), start_(start) {
    options_.max_tokens = 1;
    options_.input_tokens = options.long_prompt_tokens;
    if (options_.input_tokens > 0) thread_ = std::thread([this] { run(); });
  }
  LongPrompts(const LongPrompts&) = delete;
  LongPrompts& operator=(const LongPrompts&) = delete;
  ~LongPrompts() { stop(); }
  /// Waits for the one that is being read.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  // after stop
  const std::vector<Interval>& intervals() const { return intervals_; }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  static constexpr std::chrono::milliseconds kPause{500};
  static constexpr int64_t kFarIndex = int64_t{1} << 40;  // their prompts are nobody else's

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kPause, [this] { return stopping_; })) {
      lock.unlock();
      const double from = ms_since(start_);
      const auto sample =
          measure_request(target_, options_, prompt_text(kFarIndex + index_++, options_.input_tokens, options_.seed), [] {});
      if (sample.ok())
        intervals_.push_back({from, from + sample->ttft_ms});
      else
        errors_.push_back("a long prompt: " + sample.error().message);
      lock.lock();
    }
  }

  const Target& target_;
  Options options_;
  int64_t index_;
  const Clock::time_point start_;
  std::vector<Interval> intervals_;
  std::vector<std::string> errors_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

Summary run_load(const Target& target, const Options& options, int concurrency, int64_t requests, int64_t first_index,
                 const std::function<void(const Progress&)>& report) {
  std::atomic<int64_t> next{0}, pieces{0};
  std::mutex mutex;  // guards samples, errors, running
  std::condition_variable changed;
  std::vector<Sample> samples;
  std::vector<std::string> errors;
  int running = concurrency;

  const Clock::time_point start = Clock::now();
  LongPrompts long_prompts(target, options, first_index, start);
  const auto stream = [&] {
    for (int64_t i; (i = next.fetch_add(1)) < requests;) {
      const std::string prompt =
          options.prompt.empty() ? prompt_text(first_index + i, options.input_tokens, options.seed) : options.prompt;
      const double start_ms = ms_since(start);
      auto sample = measure_request(target, options, prompt, [&] { pieces.fetch_add(1, std::memory_order_relaxed); });
      const std::lock_guard lock(mutex);
      if (sample.ok()) {
        sample->start_ms = start_ms;
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
  long_prompts.stop();
  errors.insert(errors.end(), long_prompts.errors().begin(), long_prompts.errors().end());
  Summary summary = summarise(concurrency, wall_s, samples, errors);
  std::vector<double> long_ttft;
  for (const Interval& interval : long_prompts.intervals()) long_ttft.push_back(interval.to_ms - interval.from_ms);
  summary.long_ttft_ms = spread_of(std::move(long_ttft));
  summary.beside_itl_ms = spread_of(gaps_within(samples, long_prompts.intervals()));
  return summary;
}

}  // namespace slipstream::bench
