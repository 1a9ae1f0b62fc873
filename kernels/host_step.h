// A step's cache blocks on the host, renumbered from 0: what the reference backend reads and writes in place of a device's
// cache. Knows block tables and layouts; no op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace slipstream {

class HostStep {
 public:
  /// Downloads the blocks that the step's spans reach in the cache group of `kv`.
  HostStep(Ops& device, const StepInputs& step, const KvLayer& kv);
  HostStep(const HostStep&) = delete;
  HostStep& operator=(const HostStep&) = delete;

  const StepInputs& step() const { return step_; }
  const KvLayer& kv() const { return kv_; }
  /// The blocks as the device has them now.
  void refresh(Ops& device);

  struct Row {
    int32_t step_row = 0;
    std::vector<float> k, v;  // [kv_heads, head_dim]
  };
  /// The rows that the step writes, in the order of its spans.
  std::vector<Row> written() const;
  /// Bytes that differ from `before` in tokens that the step does not write: the number of such tokens.
  int64_t strays(const HostStep& before) const;

 private:
  std::vector<float> token(const std::vector<std::byte>& side, int64_t block, int64_t offset) const;
  const int32_t* table(const SpanRows& span) const { return span.block_tables[kv_.group]; }

  KvLayer device_kv_, kv_;
  std::vector<int32_t> ids_;                    // device block of each host block
  std::vector<std::byte> k_, v_;                // [blocks, kv_heads, block_tokens, head_dim]
  std::vector<std::vector<int32_t>> tables_;    // [spans]
  std::vector<std::vector<const int32_t*>> columns_;  // [spans][groups], all the same table
  std::vector<SpanRows> spans_;
  StepInputs step_;
};

}  // namespace slipstream
