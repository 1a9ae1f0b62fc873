// Times the sampler: bench_sample [part of a case's name] prints microseconds per call from graph replays over rotating logits.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/sample.h"
#include "kernels/sample_law.h"
#include "tests/cuda/bench_clock.h"

using namespace slipstream;
using namespace slipstream::cuda;

namespace {

struct Case {
  const char* name;
  SampleVariant variant;
  float temperature, top_p;
  int32_t top_k;
  float repetition;
  int32_t history;
  int32_t top_logprobs;
};

/// Standard normals by hashing and Box-Muller; times scale.
__global__ void fill(float* x, int64_t n, float scale, uint32_t seed) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const law::PhiloxBlock b = law::philox(seed, static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 9);
    const float u = (b.word[0] + 0.5f) * 2.3283064e-10f, v = b.word[1] * 2.3283064e-10f;
    x[i] = scale * sqrtf(-2 * logf(u)) * cospif(2 * v);
  }
}

void run(Context& context, int32_t rows, int32_t vocab, float spread, const Case& c) {
  const int sets = std::max<int>(2, static_cast<int>(256000000ll / (4ll * rows * vocab) + 1));
  const int used = std::min(sets, 8);
  Buffer logits = context.allocate(4ull * static_cast<size_t>(rows) * static_cast<size_t>(vocab) * static_cast<size_t>(used));
  fill<<<1024, 256, 0, context.stream()>>>(logits.as<float>(), static_cast<int64_t>(rows) * vocab * used, spread, 1);
  Buffer scratch = context.allocate(sample_scratch_bytes(rows, vocab));
  Buffer law = context.allocate(static_cast<size_t>(rows) * sizeof(DeviceSampleRow));
  Buffer out = context.allocate(static_cast<size_t>(rows) * sizeof(SampledToken));
  context.synchronize();  // allocate clears on its stream
  std::mt19937 random(1);
  std::vector<int32_t> ids(static_cast<size_t>(std::max(1, c.history)));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
  Buffer history = context.allocate(ids.size() * sizeof(int32_t));
  context.synchronize();
  cudaMemcpy(history.data(), ids.data(), history.bytes(), cudaMemcpyHostToDevice);
  std::vector<DeviceSampleRow> laws(static_cast<size_t>(rows));
  for (size_t r = 0; r < laws.size(); ++r) {
    DeviceSampleRow& l = laws[r];
    l.temperature = c.temperature, l.top_p = c.top_p, l.top_k = c.top_k, l.repetition_penalty = c.repetition;
    l.history = history.as<int32_t>(), l.prompt_tokens = c.history / 2, l.output_tokens = c.history - c.history / 2;
    l.seed = r, l.position = 5, l.top_logprobs = c.top_logprobs;
  }
  cudaMemcpy(law.data(), laws.data(), law.bytes(), cudaMemcpyHostToDevice);
  std::vector<Graph> graphs;
  for (int s = 0; s < used; ++s) {
    SampleArgs args{logits.as<float>() + static_cast<int64_t>(s) * rows * vocab, rows, vocab, law.as<DeviceSampleRow>(),
                    out.as<SampledToken>(), scratch.data(), rows, c.variant};
    graphs.emplace_back(context, [&] { sample(context, args); });
  }
  const double us = bench::median_us(context, 50, [&] {
                      for (const Graph& graph : graphs) graph.replay(context);
                    }) / used;
  const double once = 4.0 * rows * vocab / 4.4e12 * 1e6;
  std::printf("%7d %5d %5.2f  %-28s %8.1f us   %6.2f x one read\n", vocab, rows, spread, c.name, us, us / once);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Context context(0);
  const SampleVariant greedy = SampleVariant::kGreedy, sampled = SampleVariant::kSampled, full = SampleVariant::kFull;
  const Case cases[] = {
      {"greedy", greedy, 0, 1, 0, 1, 0, -1},
      {"argmax in sampled", sampled, 0, 1, 0, 1, 0, -1},
      {"plain T=0.8", sampled, 0.8f, 1, 0, 1, 0, -1},
      {"top_p 0.9", sampled, 0.8f, 0.9f, 0, 1, 0, -1},
      {"top_k 50", sampled, 0.8f, 1, 50, 1, 0, -1},
      {"top_k 50 top_p 0.9", sampled, 0.8f, 0.9f, 50, 1, 0, -1},
      {"top_p 0.9 T=0.2", sampled, 0.2f, 0.9f, 0, 1, 0, -1},
      {"top_p + repetition, 2k ids", sampled, 0.8f, 0.9f, 0, 1.1f, 2048, -1},
      {"top_p + repetition, 32k ids", sampled, 0.8f, 0.9f, 0, 1.1f, 32768, -1},
      {"greedy + logprobs 5", full, 0, 1, 0, 1, 0, 5},
      {"top_p 0.9 + logprobs 20", full, 0.8f, 0.9f, 0, 1, 0, 20},
  };
  std::printf("  vocab  rows sigma  case\n");
  for (const auto& [vocab, rows, spread] : {std::tuple{151936, 64, 3.0f}, {151936, 64, 0.3f}, {151936, 1, 3.0f}, {49152, 64, 3.0f}, {49152, 1, 3.0f}, {151936, 256, 3.0f}})
    for (const Case& c : cases)
      if (argc < 2 || std::strstr(c.name, argv[1]) != nullptr) run(context, rows, vocab, spread, c);
}
