// See doctor.h: the report for a terminal.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/doctor/doctor.h"
#include "engine/doctor/kernel_report.h"

namespace slipstream {
namespace {

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

const char* word(bool ok) { return ok ? "ok" : "FAILED"; }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%9.2e", value);
  return text;
}

}  // namespace

std::string doctor_text(const DoctorReport& report) {
  std::string text = report.model + " on backend " + report.backend + "\n\n" + report.kernels_text;
  size_t width = 0;
  for (const DoctorCheck& check : report.checks) width = std::max(width, check.part.size() + 2 + check.name.size());
  if (!report.checks.empty()) text += "\n";
  for (const DoctorCheck& check : report.checks) {
    const char* status = check.status == CheckStatus::kSkipped ? "skipped" : word(check.status == CheckStatus::kOk);
    text += "  " + padded(status, 8) + padded(check.part + ", " + check.name, width + 2) + check.text + "\n";
  }
  if (!report.ops.empty()) {
    width = 8;
    for (const auto& [family, tally] : report.ops) width = std::max(width, family.size());
    text += "\n  ops against the reference" + std::string(width > 17 ? width - 17 : 0, ' ') + "rows compared      error      bound\n";
    for (const auto& [family, tally] : report.ops) {
      char count[24];
      std::snprintf(count, sizeof count, "%12lld", static_cast<long long>(tally.cases));
      text += "  " + padded(word(tally.failed == 0), 8) + padded(family, std::max<size_t>(width, 17)) + count + "  " + number(tally.error) + "  " +
              number(tally.bound) + (tally.failed > 0 ? "  " + std::to_string(tally.failed) + " wrong" : "") + "\n";
    }
    constexpr size_t kShown = 8;
    for (size_t i = 0; i < std::min(kShown, report.failing_ops.size()); ++i) text += "          " + report.failing_ops[i].text() + "\n";
    if (report.failing_ops.size() > kShown) text += "          and more; --json has them\n";
  }
  if (!report.layers.empty()) {
    text += "\n  residual stream behind each layer      error      bound\n";
    // a healthy model needs no line for each layer
    const size_t last = report.layers.size() - 1;
    for (size_t l = 0; l <= last; ++l) {
      const LayerCheck& layer = report.layers[l];
      const auto at = static_cast<int32_t>(l), bad = report.first_bad_layer;
      const bool shown = l == 0 || l + 1 >= last || (bad >= 0 && std::abs(at - bad) <= 2) || (bad < 0 && l % std::max<size_t>(1, last / 6) == 0);
      if (!shown) continue;
      text += "  " + padded(word(layer.ok()), 8) + padded(l == last ? "logits" : "layer " + std::to_string(layer.layer), 26) + number(layer.error) + "  " +
              number(layer.bound) + "\n";
    }
  }
  char seconds[48];
  std::snprintf(seconds, sizeof seconds, " (%.1f s)\n", report.seconds);
  return text + "\n" + (report.ok() ? "ok: " : "FAILED: ") + report.verdict + seconds;
}

}  // namespace slipstream
