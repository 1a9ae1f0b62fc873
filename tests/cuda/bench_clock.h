// Microseconds of launches, from replays of captured graphs.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/cuda/graph.h"

namespace slipstream::cuda::bench {

inline double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Median over `rounds`, after a few that are not counted, of the time between the ends of what `run` puts on the stream.
inline double median_us(Context& context, int rounds, const std::function<void()>& run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  const int warm = 2 + rounds / 6;
  for (int i = 0; i < warm + rounds; ++i) {
    check(cudaEventRecord(begin, context.stream()), "record");
    run();
    check(cudaEventRecord(end, context.stream()), "record");
    check(cudaEventSynchronize(end), "wait");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= warm) times.push_back(1000.0 * static_cast<double>(ms));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return median(std::move(times));
}

/// Microseconds of one of `launches` launches in a replayed graph; launch(i) may rotate over copies, so that caches stay cold.
inline double replay_us(Context& context, int launches, const std::function<void(int)>& launch) {
  launch(0);
  context.synchronize();
  const Graph graph(context, [&] {
    for (int i = 0; i < launches; ++i) launch(i);
  });
  return median_us(context, 7, [&] { graph.replay(context); }) / launches;
}

}  // namespace slipstream::cuda::bench
