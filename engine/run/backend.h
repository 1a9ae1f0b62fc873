// Which backend runs: the choice between GPU and CPU, once for serve, bench and doctor. Knows Ops; no model and no config
// file.
#pragma once

#include <memory>
#include <string>

#include "engine/base/result.h"
#include "kernels/ops.h"

namespace slipstream {

struct BackendOptions {
  std::string backend = "auto";    // auto, cuda, cpu, reference
  int32_t threads = 0;             // cpu; 0: all available cores
  std::string cpu_isa = {};             // "", scalar, avx2, avx512vnni
  std::string cuda_feature_level = {};  // "", or what the GPU is held to: sm80, sm86, sm89, sm120
  bool deterministic = false;           // cuda: row-exact kernels
  bool resident_steps = false;          // cuda: for CudaExecutor alone, whose steps bring their own device arrays
};

/// auto is the GPU where the system has one, otherwise the CPU; `why_not_cuda`, if given, then says why in one line. A GPU
/// that is there but cannot be used is an error for auto too: a CPU would answer, far slower than anyone expects.
Result<std::unique_ptr<Ops>> make_backend(const BackendOptions& options, std::string* why_not_cuda = nullptr);

}  // namespace slipstream
