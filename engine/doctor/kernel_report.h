// What a backend says about itself, for people and programs: the machine, and the kernel of each op family with what rules
// out a faster one. Knows Ops only.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace slipstream {

/// {"gpu": "NVIDIA H200", …}
std::string machine_report_json(const Ops& ops);
/// [{"op", "kernel", "built_for", "why"}, …]
std::string kernel_report_json(const Ops& ops);
/// Start-up: one line for the machine, one for each op family.
void log_kernel_report(const Ops& ops);
/// The same as a table for a terminal, indented by two.
std::string kernel_report_text(const Ops& ops);

}  // namespace slipstream
