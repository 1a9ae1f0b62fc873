// See gpu_support.h.
#include "kernels/gpu_support.h"

#include <algorithm>
#include <cctype>

namespace slipstream {
namespace {

constexpr int32_t kOldestArch = 80;                         // mma.sync of BF16 and cp.async
constexpr std::string_view kReleaseTargets = "80 86 89 90a 100f 120f";  // preset release-all

/// The target that a build for this GPU alone would name: the nearest below. Empty for a GPU that none serves.
std::string_view target_for(int32_t arch) {
  std::string_view best;
  for (const std::string_view target : target_list(kReleaseTargets))
    if (target_runs_on(target, arch)) best = target;
  return best;
}

}  // namespace

std::string capability_text(int32_t arch) { return std::to_string(arch / 10) + "." + std::to_string(arch % 10); }

std::vector<std::string_view> target_list(std::string_view targets) {
  std::vector<std::string_view> list;
  while (!targets.empty()) {
    const size_t end = std::min(targets.find(' '), targets.size());
    if (end > 0) list.push_back(targets.substr(0, end));
    targets.remove_prefix(std::min(end + 1, targets.size()));
  }
  return list;
}

bool target_runs_on(std::string_view target, int32_t arch) {
  int32_t built = 0;
  size_t digits = 0;
  for (; digits < target.size() && digits < 4 && std::isdigit(static_cast<unsigned char>(target[digits])) != 0; ++digits)
    built = 10 * built + (target[digits] - '0');
  const std::string_view kind = target.substr(digits);
  if (digits == 0) return false;
  if (kind == "a") return arch == built;
  if (kind != "" && kind != "f") return false;
  // 10.1 is the old name of a family of its own
  if (kind == "f" && built == 100 && arch == 101) return false;
  return arch / 10 == built / 10 && arch >= built;
}

std::string no_kernels_reason(std::string_view gpu_name, int32_t arch, std::string_view targets) {
  for (const std::string_view target : target_list(targets))
    if (target_runs_on(target, arch)) return {};
  std::string text = "GPU '" + std::string(gpu_name) + "' has compute capability " + capability_text(arch) +
                     ", and this build has kernels for " + (targets.empty() ? "none" : std::string(targets)) + "; ";
  if (arch < kOldestArch) return text + "no build serves it, the oldest that is served is " + capability_text(kOldestArch);
  const std::string_view target = target_for(arch);
  if (target.empty())
    return text + "it is newer than what the preset release-all builds (" + std::string(kReleaseTargets) +
           "): configure with -DSLIPSTREAM_CUDA_ARCHS=" + std::to_string(arch) + " and an nvcc that knows it";
  return text + "the preset release-all serves it (" + std::string(kReleaseTargets) +
         "), or one with -DSLIPSTREAM_CUDA_ARCHS=" + std::string(target);
}

std::optional<int32_t> feature_level(std::string_view name) {
  if (name.empty()) return 0;
  for (const int32_t level : {80, 86, 89, 120})
    if (name == "sm" + std::to_string(level)) return level;
  return std::nullopt;
}

std::string feature_level_reason(int32_t level, int32_t arch) {
  if (level == 0) return {};
  if (level != 80 && level != 86 && level != 89 && level != 120)
    return "feature level " + std::to_string(level) + " is none of 80, 86, 89, 120";
  const int32_t needs = level == 120 ? 89 : level;
  if (arch >= needs) return {};
  return "feature level sm" + std::to_string(level) + " needs compute capability " + capability_text(needs) + ", the GPU has " +
         capability_text(arch) + "; use sm80 or leave it out";
}

}  // namespace slipstream
