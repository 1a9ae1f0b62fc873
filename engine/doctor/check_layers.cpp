// See checks.h: the residual stream, layer by layer.
#include <algorithm>
#include <cmath>

#include "engine/doctor/checks.h"

namespace slipstream {
namespace {

/// The largest relative root-mean-square error of a row. Row r of layer l is at (r * stride + l) * width.
double worst_row(const std::vector<float>& got, const std::vector<float>& want, size_t rows, size_t stride, size_t offset, size_t width) {
  double worst = 0;
  for (size_t r = 0; r < rows; ++r) {
    double error = 0, size = 0;
    const size_t first = (r * stride + offset) * width;
    for (size_t i = first; i < first + width; ++i) {
      error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
      size += double{want[i]} * want[i];
    }
    const double relative = std::sqrt(error) / (std::sqrt(size) + 1e-30);
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

}  // namespace

void check_layers(Probe& probe, Probe& reference, std::span<const int32_t> tokens, double step_error, DoctorReport* report) {
  std::vector<float> got_logits, want_logits;
  const std::vector<float> got = probe.run_taps(tokens, &got_logits), want = reference.run_taps(tokens, &want_logits);
  const auto layers = static_cast<size_t>(probe.config().layers), width = static_cast<size_t>(probe.config().hidden);
  for (size_t l = 0; l <= layers; ++l) {
    LayerCheck check;
    check.layer = static_cast<int32_t>(l);
    // Rounding of each layer adds like noise, and later layers carry it on.
    check.bound = step_error * std::sqrt(static_cast<double>(l + 1));
    check.error = l < layers ? worst_row(got, want, tokens.size(), layers, l, width)
                             : worst_row(got_logits, want_logits, tokens.size(), 1, 0, static_cast<size_t>(probe.config().vocab));
    if (!check.ok() && report->first_bad_layer < 0) report->first_bad_layer = check.layer;
    report->layers.push_back(check);
  }
}

}  // namespace slipstream
