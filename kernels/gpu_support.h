// Which GPUs a build's kernels run on, and what it says where they do not. Plain rules over numbers and names, so that
// they are tested without a GPU; knows no device and no kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// "9.0" of 90.
std::string capability_text(int32_t arch);

/// Whether machine code built for `target` ("80", "90a", "100f") runs on compute capability `arch` (10 * major + minor).
/// A plain target serves its own major from its minor on, "f" the same within its family, "a" exactly one GPU (CUDA
/// programming guide, binary compatibility and family-specific features).
bool target_runs_on(std::string_view target, int32_t arch);

/// The words of "80 86 90a".
std::vector<std::string_view> target_list(std::string_view targets);

/// Empty where one of the build's `targets` runs on the GPU. Otherwise one line with the GPU, the list and the build
/// that would serve it. Builds hold machine code only: nothing is left for a driver to compile.
std::string no_kernels_reason(std::string_view gpu_name, int32_t arch, std::string_view targets);

/// A feature level as flags spell it: "" is 0 (the GPU's own), "sm80" is 80; nothing for other words.
std::optional<int32_t> feature_level(std::string_view name);

/// Empty where a GPU of compute capability `arch` can pass for `level`, which must have nothing that the GPU lacks.
/// Otherwise one line. Level 120 means the instructions of 89 and at most 99 KB of shared memory per block.
std::string feature_level_reason(int32_t level, int32_t arch);

}  // namespace slipstream
