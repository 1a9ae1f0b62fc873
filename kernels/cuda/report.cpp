// What the CUDA backend says about itself: the GPU with its driver, and the kernel of each op family.
#include <cstdio>
#include <fstream>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/gpu_support.h"

namespace slipstream::cuda {
namespace {

/// "13.0" of 13000.
std::string cuda_version(int32_t version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

/// "139.8 GiB".
std::string gibibytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30));
  return text;
}

/// The kernel module's version, "580.95.05"; empty where the file is hidden.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return {};
}

/// FP8 products of 9 rows and more: linear_f8_sm90.cu where it serves, measured against the others.
KernelChoice f8_rows_report(const Context& context) {
  const std::string op = "linear F8_E4M3, 9 rows and more";
  if (context.arch() == 90 && !context.deterministic()) return {op, "codes to BF16 in registers, wgmma, where it measures faster", "", "90a"};
  return {op, "as with fewer rows",
          context.deterministic() ? "row-exact products keep the order of mma.sync"
                                  : "wgmma is of compute capability 90 only, this is " + std::to_string(context.arch())};
}

}  // namespace

std::vector<MachineFact> CudaOps::machine_report() const {
  const DeviceFacts& facts = context_.facts();
  const std::string module = driver_version();
  std::string level = "sm" + std::to_string(context_.arch());
  if (context_.arch() != facts.arch) level += ", forced: kernels of newer features are left out";
  int clock_khz = 0;
  if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, facts.ordinal) != cudaSuccess) cudaGetLastError();
  std::vector<MachineFact> report = {
      {"gpu", facts.name},
      {"compute_capability", capability_text(facts.arch)},
      {"feature_level", level},
      {"multiprocessors", std::to_string(facts.multiprocessors)},
      {"memory", gibibytes(facts.memory_bytes)},
      {"l2_cache", std::to_string(facts.l2_bytes >> 20) + " MiB"},
      {"driver", (module.empty() ? "" : module + ", ") + "for CUDA " + cuda_version(facts.driver_version)},
      {"cuda_runtime", cuda_version(facts.runtime_version)},
      {"cuda_toolkit", cuda_version(CUDART_VERSION)},
      {"built_for", std::string(built_targets())},
      {"deterministic", context_.deterministic() ? "yes, row-exact kernels" : "no"}};
  if (clock_khz > 0) report.insert(report.begin() + 4, {"highest_clock", std::to_string(clock_khz / 1000) + " MHz"});
  return report;
}

std::vector<KernelChoice> CudaOps::kernel_report() const {
  std::vector<KernelChoice> report;
  const auto add = [&report](std::vector<KernelChoice> choices) {
    for (KernelChoice& choice : choices) report.push_back(std::move(choice));
  };
  add({{"embedding, gather", "one pass over the rows asked for", ""}});
  add(linear_report(linear_scratch_));
  add({f8_rows_report(context_)});
  if (attention_shape_.head_dim > 0) add(attention_report(attention_shape_, context_.arch()));
  add({{"norm, rope, swiglu", "one pass, float in, every wanted form out", ""}});
  add(sample_report(context_));
  for (KernelChoice& choice : report)
    if (choice.built_for.empty()) choice.built_for = std::string(built_targets());
  return report;
}

}  // namespace slipstream::cuda
