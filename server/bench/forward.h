// `slipstream bench --forward MODEL`: the price of one forward pass by rows, without a server. It decides whether drafts
// can pay: verifying k drafts is a forward with the logits of k + 1 rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream::bench {

struct ForwardOptions {
  std::string model;                      // path, .gguf or hub id
  int32_t threads = 0;                    // 0: all available cores
  std::string backend = "cpu";            // cpu, cuda or reference
  std::string cuda_feature_level;         // "", or what the GPU is held to: sm80, sm86, sm89, sm120
  std::vector<int32_t> rows = {1, 2, 4, 8};
  int32_t context = 64;                   // tokens in the cache before the measured rows
  int32_t repeats = 40;                   // of each row count, in turn; the median counts
  bool json = false;
};

/// Prints a table, or {"rows": {"1": ms, …}}. Exit code: 0, or 2 for a model that cannot be loaded.
int run_forward(const ForwardOptions& options);

}  // namespace slipstream::bench
