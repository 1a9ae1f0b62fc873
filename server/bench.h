// The `bench` subcommand: a load client for any OpenAI-compatible endpoint, and the price of a forward pass in-process.
#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// Measures TTFT, TPOT, inter-token latency, end-to-end latency and throughput; see server/bench/measure.h for what
/// each means. Returns the exit code: 0 all requests answered, 1 some failed, 2 bad arguments or no server.
int run_bench(const std::vector<std::string>& args);

}  // namespace slipstream
