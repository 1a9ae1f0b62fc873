// See checks.h: every op of the loaded model against the reference.
#include <algorithm>

#include "engine/doctor/checks.h"
#include "engine/doctor/first_layers.h"

namespace slipstream {
namespace {

std::vector<int32_t> all_rows(size_t count) {
  std::vector<int32_t> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(static_cast<int32_t>(i));
  return rows;
}

/// Laws of every kind over the last logits.
void check_sampler(Probe& probe, CheckedOps& checked, int32_t rows, std::span<const int32_t> history) {
  std::vector<SampleRow> laws;
  for (int32_t r = 0; r < rows; ++r) {
    SampleRow law;
    law.position = r;
    law.seed = 7;
    law.temperature = r % 4 == 0 ? 0.0f : 0.8f;
    if (r % 4 == 2) law.top_k = 40, law.repetition_penalty = 1.1f, law.prompt_tokens = history;
    if (r % 4 == 3) law.top_p = 0.9f, law.top_logprobs = 5;
    laws.push_back(law);
  }
  std::vector<SampledToken> drawn(laws.size());
  SampleBatch batch;
  batch.logits = probe.logits();
  batch.rows = rows;
  batch.vocab = probe.config().vocab;
  batch.row = laws.data();
  batch.out = drawn.data();
  checked.sample(batch);
}

}  // namespace

void check_ops(Probe& probe, CheckedOps& checked, std::span<const int32_t> tokens, DoctorReport* report, const DoctorProgress& progress) {
  const auto count = static_cast<int32_t>(tokens.size());
  const int32_t verify = std::min(4, count / 4), chunk = std::min(5, count / 4), prefill = count - verify - chunk - 1;
  const auto part = [&](int32_t first, int32_t rows) {
    return std::vector<int32_t>(tokens.begin() + first, tokens.begin() + first + rows);
  };
  std::string step;
  checked.set_checking(true);
  checked.set_listener([&](std::string_view op, std::string_view tensor) {
    progress("checking ops, " + step + ": " + std::string(op) + " " + std::string(tensor));
  });
  const auto run = [&](const char* name, std::vector<ProbeSpan> spans, const std::vector<int32_t>& logit_rows) {
    step = name;
    probe.run(spans, logit_rows);
  };
  run("prefill", {{0, 0, part(0, prefill)}}, {prefill - 1});
  run("chunk", {{0, prefill, part(prefill, chunk)}}, {});
  run("decode", {{0, prefill + chunk, part(prefill + chunk, 1)}}, {0});
  run("verify", {{0, prefill + chunk + 1, part(prefill + chunk + 1, verify)}}, all_rows(static_cast<size_t>(verify)));
  check_sampler(probe, checked, verify, tokens);
  // a sequence decodes while another one's prompt comes in
  run("mixed", {{0, count - 1, part(count - 1, 1)}, {1, 0, part(0, prefill)}}, {0, prefill});
  checked.set_listener({});
  checked.set_checking(false);
  report->ops = checked.tallies();
  report->failing_ops = checked.failures();
}

void bisect_layer(Probe& probe, CheckedOps& checked, std::span<const int32_t> tokens, DoctorReport* report) {
  const int32_t layer = report->first_bad_layer;
  const size_t before = checked.failures().size();
  checked.set_checking(true);
  checked.set_filter([layer](std::string_view tensor) { return layer_of_tensor(tensor) == layer; });
  std::vector<float> logits;
  probe.run_taps(tokens, &logits);
  checked.set_filter({});
  checked.set_checking(false);
  report->failing_ops.insert(report->failing_ops.end(), checked.failures().begin() + static_cast<std::ptrdiff_t>(before),
                             checked.failures().end());
  report->ops = checked.tallies();
}

}  // namespace slipstream
