// See kernel_report.h.
#include "engine/doctor/kernel_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/log.h"

namespace slipstream {

using Json = nlohmann::ordered_json;

std::string machine_report_json(const Ops& ops) {
  Json out = Json::object();
  out["backend"] = ops.name();
  for (const MachineFact& fact : ops.machine_report()) out[fact.name] = fact.value;
  return out.dump();
}

std::string kernel_report_json(const Ops& ops) {
  Json out = Json::array();
  for (const KernelChoice& choice : ops.kernel_report())
    out.push_back({{"op", choice.op}, {"kernel", choice.kernel}, {"built_for", choice.built_for}, {"why", choice.why}});
  return out.dump();
}

void log_kernel_report(const Ops& ops) {
  std::vector<log::Field> fields = {{"backend", ops.name()}};
  const std::vector<MachineFact> facts = ops.machine_report();
  for (const MachineFact& fact : facts) fields.emplace_back(fact.name, fact.value);
  log::write(log::Level::kInfo, "machine", fields);
  for (const KernelChoice& choice : ops.kernel_report()) {
    fields = {{"op", choice.op}, {"kernel", choice.kernel}};
    if (!choice.built_for.empty()) fields.emplace_back("built_for", choice.built_for);
    if (!choice.why.empty()) fields.emplace_back("not_faster", choice.why);
    log::write(log::Level::kInfo, "kernel", fields);
  }
}

std::string kernel_report_text(const Ops& ops) {
  std::string text;
  const auto row = [&text](const std::string& name, size_t width, const std::string& rest) {
    text += "  " + name + std::string(width + 2 - std::min(width, name.size()), ' ') + rest + "\n";
  };
  size_t width = 0;
  const std::vector<MachineFact> facts = ops.machine_report();
  for (const MachineFact& fact : facts) width = std::max(width, fact.name.size());
  for (const MachineFact& fact : facts) row(fact.name, width, fact.value);
  text += "\n";
  const std::vector<KernelChoice> choices = ops.kernel_report();
  width = 0;
  for (const KernelChoice& choice : choices) width = std::max(width, choice.op.size());
  for (const KernelChoice& choice : choices) {
    row(choice.op, width, choice.kernel + (choice.built_for.empty() ? "" : " [" + choice.built_for + "]"));
    if (!choice.why.empty()) row("", width, "not faster: " + choice.why);
  }
  return text;
}

}  // namespace slipstream
