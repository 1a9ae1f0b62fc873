// Working memory of one kernel thread; allocated in warm_up, so that no step allocates.
#pragma once

#include "kernels/cpu/cpu_ops.h"

namespace slipstream {

inline constexpr int kRowBlock = 64;              // activation rows that share one unpacked panel
inline constexpr int kMaxQueries = 64;            // query vectors that share one unpacked K and V tile
inline constexpr int kQueryFloats = 64 * 256;     // their accumulators in all
inline constexpr int64_t kSplitFloats = 1 << 18;  // tile results of split attention

struct CpuOps::WorkerScratch {
  QuantPanel panel;
  alignas(64) float acc[kRowBlock][kPanelRows];
  alignas(64) float total[kRowBlock][kPanelRows];
  alignas(64) float k_panel[kAttentionTile * kMaxHeadDim];
  alignas(64) float v_panel[kAttentionTile * kMaxHeadDim];
  alignas(64) float query_acc[kQueryFloats];
  alignas(64) float tile_acc[kQueryFloats];
  alignas(64) float cosine[kMaxHeadDim / 2];
  alignas(64) float sine[kMaxHeadDim / 2];
  AttentionState state[kMaxQueries];
};

template <typename Body>
void CpuOps::for_rows(int64_t rows, int64_t cost, const Body& body) {
  constexpr int64_t kWorthSharing = 16384;  // elements; about five microseconds of one core
  if (rows < 2 || rows * cost < kWorthSharing) {
    for (int64_t r = 0; r < rows; ++r) body(r, 0);
    return;
  }
  const int64_t step = rows / (8 * pool_.threads()) + 1;
  pool_.parallel_for_worker((rows + step - 1) / step, [&](int64_t chunk, int32_t worker) {
    const int64_t end = (chunk + 1) * step < rows ? (chunk + 1) * step : rows;
    for (int64_t r = chunk * step; r < end; ++r) body(r, worker);
  });
}

}  // namespace slipstream
