// A closed loop of N streams: each thread sends the next request when its last one ended. Owns the threads of one
// measurement.
#pragma once

#include <functional>
#include <string>

#include "server/bench/http_client.h"
#include "server/bench/measure.h"
#include "server/bench/options.h"

namespace slipstream::bench {

struct Target {
  Url url;
  std::string path;  // of the completions route
  std::string model;
  /// The acceptance length that the server makes up (its speculative-config.synthetic-acceptance); 0: real acceptance, or a
  /// server that does not say.
  double synthetic_length = 0;
};

/// What a progress line shows.
struct Progress {
  int concurrency = 0;
  int64_t requests = 0, finished = 0, failed = 0, pieces = 0;
  double elapsed_s = 0;
};

/// Sends one request and reads its answer.
Result<Sample> measure_request(const Target& target, const Options& options, const std::string& prompt,
                               const std::function<void()>& on_bytes);

/// Runs one measurement; `first_index` keeps its prompts apart from those of earlier ones. `report` is called about
/// five times a second from this thread.
Summary run_load(const Target& target, const Options& options, int concurrency, int64_t requests, int64_t first_index,
                 const std::function<void(const Progress&)>& report);

}  // namespace slipstream::bench
