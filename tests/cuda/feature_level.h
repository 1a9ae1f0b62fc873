// The one place where tests learn which features of the GPU they may use: all, or those of the architecture that
// SLIPSTREAM_CUDA_FEATURES names (sm80, sm86, sm89, sm120). Every Context and Ops of a test is made with it.
#pragma once

#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "kernels/gpu_support.h"
#include "kernels/ops.h"

namespace slipstream::test {

/// 0 for the GPU's own.
inline int32_t feature_arch() {
  const char* name = std::getenv("SLIPSTREAM_CUDA_FEATURES");
  const std::optional<int32_t> level = feature_level(name == nullptr ? "" : name);
  if (!level) throw std::runtime_error("SLIPSTREAM_CUDA_FEATURES is none of sm80, sm86, sm89, sm120");
  return *level;
}

inline std::unique_ptr<Ops> gpu_ops(bool deterministic = false) {
  return make_cuda_ops({.feature_arch = feature_arch(), .deterministic = deterministic});
}

}  // namespace slipstream::test
