// See backend.h.
#include "engine/run/backend.h"

#include "kernels/gpu_support.h"

namespace slipstream {

Result<std::unique_ptr<Ops>> make_backend(const BackendOptions& options, std::string* why_not_cuda) {
  const std::string& backend = options.backend;
  const auto level = feature_level(options.cuda_feature_level);
  if (!level)
    return invalid_argument("cuda-feature-level '" + options.cuda_feature_level + "' is none of sm80, sm86, sm89, sm120",
                            "cuda-feature-level");
  if (*level != 0 && backend != "cuda")
    return invalid_argument("cuda-feature-level " + options.cuda_feature_level + " needs backend cuda, not " + backend,
                            "cuda-feature-level");
  if (backend == "reference") return make_reference_ops();
  if (backend == "cuda" || backend == "auto") {
    std::string why;
    const bool present = cuda_available(&why);
    try {
      if (present) return make_cuda_ops({.feature_arch = *level, .deterministic = options.deterministic,
                                         .resident_steps = options.resident_steps});
    } catch (const DeviceError& error) {
      return unsupported("backend " + backend + ": " + error.what() +
                             (backend == "auto" ? "; or give --backend cpu to run on the CPU" : ""),
                         "backend");
    }
    if (backend == "cuda") return unsupported("backend cuda: " + why + "; use --backend cpu", "backend");
    if (why_not_cuda != nullptr) *why_not_cuda = why;
  }
  return make_cpu_ops({.threads = options.threads, .isa = options.cpu_isa});
}

}  // namespace slipstream
