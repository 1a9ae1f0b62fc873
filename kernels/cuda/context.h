// One GPU as the kernels see it: its facts, one stream, memory that is counted. Owns the CUDA runtime's error handling
// and the feature level; knows no op, weight or model.
//
// The driver is reached through the runtime alone, so a program with these kernels also starts where there is none.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"

namespace slipstream::cuda {

/// Throws DeviceError with the runtime's name of the error; `what` says what was tried.
void check(cudaError_t status, const char* what);

struct DeviceFacts {
  int32_t ordinal = 0;
  std::string name;                  // "NVIDIA H200"
  int32_t arch = 0;                  // 10 * major + minor: 80, 86, 89, 90, 100, 120
  int32_t multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
  size_t shared_bytes_per_block = 0; // the opt-in limit
  int32_t driver_version = 0, runtime_version = 0;  // 13000 is 13.0
};

/// The architectures that this program's device code was built for, as nvcc names them: "80 86 90a".
std::string_view built_targets();

/// Empty where there is no driver or no GPU; `why`, if given, then says so in one line.
std::vector<DeviceFacts> devices(std::string* why = nullptr);

/// Worker thread of its rank only. Every kernel of a rank runs on `stream`, in launch order.
class Context {
 public:
  /// feature_arch: 0 for the GPU's own; a lower level (80, 86, 89, 120) hides what that architecture lacks, so that
  /// generic kernels run on a newer GPU. Throws DeviceError when the GPU is not usable, when no kernel was built for it,
  /// or when it has less than the level.
  /// deterministic: whoever chooses a kernel chooses among those whose rows have the same bits in every batch.
  explicit Context(int32_t ordinal, int32_t feature_arch = 0, bool deterministic = false);
  ~Context();
  /// A context that takes no memory: allocate only counts, and its addresses must never be read. Stream and facts are
  /// those of `real`, which outlives it. For memory plans.
  struct DryRun {};
  Context(const Context& real, DryRun);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  /// The level that `supports` functions ask for: wgmma and TMA at 90 only, FP8 tensor cores from 89 on. 120 has the
  /// instructions of 89 and at most 99 KB of shared memory per block.
  int32_t arch() const { return feature_arch_; }
  bool deterministic() const { return deterministic_; }
  size_t shared_bytes_per_block() const;
  cudaStream_t stream() const { return stream_; }

  /// Zeroed device memory. Throws DeviceError naming the bytes asked for and free.
  Buffer allocate(size_t bytes);
  int64_t allocations() const { return allocations_; }
  size_t allocated_bytes() const { return allocated_bytes_; }
  /// The most that was allocated at once.
  size_t peak_bytes() const { return peak_bytes_; }
  bool dry() const { return dry_; }
  void synchronize();
  /// The error of the launch just made, if any.
  void check_launch(const char* kernel);

 private:
  void count(size_t bytes);

  DeviceFacts facts_;
  int32_t feature_arch_ = 0;
  bool deterministic_ = false;
  cudaStream_t stream_ = nullptr;
  int64_t allocations_ = 0;
  size_t allocated_bytes_ = 0;
  size_t peak_bytes_ = 0;
  bool dry_ = false;
};

}  // namespace slipstream::cuda
