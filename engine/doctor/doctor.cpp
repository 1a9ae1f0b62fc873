// See doctor.h: the order of the checks.
#include "engine/doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "engine/doctor/checks.h"
#include "engine/doctor/first_layers.h"
#include "engine/doctor/kernel_report.h"
#include "engine/weights/dummy_weights.h"

namespace slipstream {
namespace {

/// What one layer's rounding may come to in the residual stream, relative to it. Measured on trained and on random weights
/// and tripled: BF16 or int8 activations, or sums in another order and a cache that rounds.
double step_error(const std::string& backend, const Checkpoint& checkpoint) {
  if (backend == "reference") return 1e-6;
  const bool blocks = std::ranges::any_of(checkpoint.tensors(), [](const TensorEntry& tensor) {
    return tensor.unserved.empty() && dtype_info(tensor.dtype).block_elements > 1;
  });
  return blocks ? 6e-2 : backend == "cuda" ? 2e-2 : 2e-3;
}

/// The parts of one examination that outlive its checks. Destroyed from the last to the first: caches and models before the
/// Ops that own their buffers.
struct Patient {
  std::unique_ptr<FirstLayers> checkpoint;
  ModelConfig config;
  int32_t model_layers = 0;  // before the cut
  std::unique_ptr<Ops> backend, fault, reference;
  std::unique_ptr<CheckedOps> checked;
  std::unique_ptr<Probe> probe, reference_probe;
};

Result<std::unique_ptr<Checkpoint>> open_model(const DoctorOptions& options, const std::string& path) {
  const bool bare = options.dummy && std::filesystem::is_directory(path);
  return bare ? make_dummy_checkpoint(path, options.seed, {}) : Checkpoint::open(path);
}

Status read_config(const DoctorOptions& options, Checkpoint& whole, Patient* patient) {
  SLIP_TRY(patient->config, read_model_config(whole));
  patient->model_layers = patient->config.layers;
  const int32_t layers = options.layers > 0 ? options.layers : patient->config.layers;
  patient->config = first_layers(std::move(patient->config), layers);
  patient->checkpoint = std::make_unique<FirstLayers>(whole, layers);
  return Ok{};
}

/// Checks that need the weights. An error is a finding.
Status run_checks(const DoctorOptions& options, std::span<const int32_t> tokens, Patient* patient, DoctorReport* report,
                  const DoctorProgress& progress) {
  Checkpoint& checkpoint = *patient->checkpoint;
  LoadOptions load;
  load.dummy = options.dummy;
  load.dummy_seed = options.seed;
  load.progress = [&progress](uint64_t done, uint64_t all) {
    progress("loading weights: " + std::to_string(done >> 20) + " of " + std::to_string(all >> 20) + " MiB");
  };
  // First, and gone before the next: two copies of the weights may not fit.
  const auto texts = run_engine(checkpoint, patient->config, options, load, tokens);
  if (!texts.ok()) {
    if (texts.error().code != ErrorCode::kInternal) return texts.error();
    report->checks.push_back(failed("engine", "runs", texts.error().message));
  }

  SLIP_TRY(patient->backend, make_backend(options.backend));
  if (options.fault) patient->fault = options.fault(*patient->backend);
  Ops& under_test = patient->fault ? *patient->fault : *patient->backend;
  patient->checked = std::make_unique<CheckedOps>(under_test, options.reference_threads);
  patient->checked->set_checking(false);
  const auto count = static_cast<int32_t>(tokens.size());
  SLIP_TRY(patient->probe, Probe::load(checkpoint, patient->config, *patient->checked, load, count + kEngineTokens, options.cache_dtype));
  report->checks.push_back(passed("checkpoint", "consumed", "every tensor is used, none is missing"));
  report->kernels_json = kernel_report_json(under_test);
  report->kernels_text = kernel_report_text(under_test);

  progress("the serving executor against a plain forward pass");
  if (texts.ok()) check_engine(*patient->probe, *texts, under_test.name(),
                               under_test.name() != "cuda" || options.backend.deterministic, report);
  check_ops(*patient->probe, *patient->checked, tokens, report, progress);
  progress("the reference's forward pass, " + std::to_string(count) + " rows");
  patient->reference = make_reference_ops(options.reference_threads);
  SLIP_TRY(patient->reference_probe, Probe::load(checkpoint, patient->config, *patient->reference, load, count, options.cache_dtype));
  check_layers(*patient->probe, *patient->reference_probe, tokens, step_error(under_test.name(), checkpoint), report);
  const int32_t bad = report->first_bad_layer;
  const auto layer_of = [](const CheckFailure& failure) {
    return layer_of_tensor(failure.tensor.empty() ? failure.after : failure.tensor);
  };
  if (bad >= 0 && bad < patient->config.layers &&
      std::ranges::none_of(report->failing_ops, [&](const CheckFailure& failure) { return layer_of(failure) <= bad; }))
    bisect_layer(*patient->probe, *patient->checked, tokens, report);
  return checkpoint.check_unchanged();
}

}  // namespace

bool DoctorReport::ok() const {
  return std::ranges::none_of(checks, [](const DoctorCheck& check) { return check.status == CheckStatus::kFailed; }) &&
         std::ranges::all_of(ops, [](const auto& family) { return family.second.failed == 0; }) && first_bad_layer < 0;
}

void give_verdict(DoctorReport* report) {
  char numbers[96];
  for (const DoctorCheck& check : report->checks)
    if (check.status == CheckStatus::kFailed && check.part == "checkpoint") {
      report->verdict = check.part + ", " + check.name + ": " + check.text;
      return;
    }
  std::string text;
  if (report->first_bad_layer >= 0) {
    const LayerCheck& layer = report->layers[static_cast<size_t>(report->first_bad_layer)];
    std::snprintf(numbers, sizeof numbers, " (error %.3g, bound %.3g)", layer.error, layer.bound);
    const bool head = static_cast<size_t>(layer.layer) + 1 == report->layers.size();
    text = head ? "the layers agree, the logits differ" : "layer " + std::to_string(layer.layer) + " is the first that differs";
    text += numbers;
  }
  if (!report->failing_ops.empty())
    text += (text.empty() ? "" : "; ") + std::string("first wrong op: ") + report->failing_ops.front().text();
  else if (!text.empty())
    text += "; each op alone agrees, so look at how ops follow each other, or at rounding that adds up";
  for (const DoctorCheck& check : report->checks)
    if (text.empty() && check.status == CheckStatus::kFailed) text = check.part + ", " + check.name + ": " + check.text;
  report->verdict = text.empty() ? "nothing wrong was found" : text;
}

Result<DoctorReport> examine(Checkpoint* checkpoint, const std::string& unreadable, const DoctorOptions& options,
                             const std::function<void(const std::string&)>& progress) {
  CHECK(options.rows >= DoctorOptions::kMinRows && options.rows <= DoctorOptions::kMaxRows, "rows out of range");
  const auto start = std::chrono::steady_clock::now();
  DoctorReport report;
  report.model = options.model;
  {
    // before the model: what runs here is worth knowing even when the model cannot be read
    SLIP_TRY(const auto backend, make_backend(options.backend));
    report.backend = backend->name();
    report.machine_json = machine_report_json(*backend);
    report.kernels_json = kernel_report_json(*backend);
    report.kernels_text = kernel_report_text(*backend);
  }
  Patient patient;
  const Status opened = checkpoint == nullptr ? Status(corrupt(unreadable)) : read_config(options, *checkpoint, &patient);
  if (!opened.ok()) {
    report.checks.push_back(failed("checkpoint", "readable", opened.error().message));
  } else {
    report.model_layers = patient.config.layers;
    check_checkpoint(*patient.checkpoint, patient.config, patient.model_layers, options.dummy, &report);
    const std::vector<int32_t> tokens =
        check_text(*patient.checkpoint, patient.config, options.prompt, options.rows, options.dummy, &report);
    try {
      if (const Status done = run_checks(options, tokens, &patient, &report, progress); !done.ok())
        report.checks.push_back(failed("checkpoint", "loads", done.error().message));
    } catch (const DeviceError& error) {
      report.checks.push_back(failed("engine", "device", error.what()));
    }
  }
  give_verdict(&report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

Result<DoctorReport> run_doctor(DoctorOptions options, const std::function<void(const std::string&)>& progress) {
  SLIP_TRY(options.model, resolve_model_path(options.model));
  const auto opened = open_model(options, options.model);
  return opened.ok() ? examine(opened->get(), "", options, progress) : examine(nullptr, opened.error().message, options, progress);
}

}  // namespace slipstream
