// See doctor.h: the order of the checks.
#include "engine/doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "engine/doctor/checks.h"
#include "engine/doctor/first_layers.h"
#include "engine/doctor/kernel_report.h"
#include "engine/model/cache_scales.h"
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

/// What is examined: a model, perhaps cut.
struct Patient {
  std::unique_ptr<FirstLayers> checkpoint;
  ModelConfig config;
  int32_t model_layers = 0;  // before the cut
  DType cache = DType::kBF16;
};

/// The backend under test, with the fault that a test plants.
struct UnderTest {
  std::unique_ptr<Ops> backend, fault;
  Ops& ops() { return fault ? *fault : *backend; }
};

Result<UnderTest> make_under_test(const DoctorOptions& options) {
  UnderTest made;
  SLIP_TRY(made.backend, make_backend(options.backend));
  if (options.fault) made.fault = options.fault(*made.backend);
  return made;
}

Result<std::unique_ptr<Checkpoint>> open_model(const DoctorOptions& options, const std::string& path) {
  const bool bare = options.dummy && std::filesystem::is_directory(path);
  return bare ? make_dummy_checkpoint(path, options.seed, {}) : Checkpoint::open(path);
}

Status read_config(const DoctorOptions& options, Checkpoint& whole, Patient* patient) {
  SLIP_TRY(patient->config, read_model_config(whole));
  patient->model_layers = patient->config.layers;
  patient->cache = cache_dtype(options.kv_cache_dtype, patient->config);
  const int32_t layers = options.layers > 0 ? options.layers : patient->config.layers;
  patient->config = first_layers(std::move(patient->config), layers);
  patient->checkpoint = std::make_unique<FirstLayers>(whole, layers);
  return Ok{};
}

/// The executor and the layers, on the backend as it serves.
Status check_as_served(const DoctorOptions& options, const LoadOptions& load, std::span<const int32_t> tokens, Patient* patient,
                       DoctorReport* report, const DoctorProgress& progress) {
  Checkpoint& checkpoint = *patient->checkpoint;
  const auto texts = run_engine(checkpoint, patient->config, options, load, tokens);
  if (!texts.ok()) {
    if (texts.error().code != ErrorCode::kInternal) return texts.error();
    report->checks.push_back(failed("engine", "runs", texts.error().message));
  }
  SLIP_TRY(UnderTest under_test, make_under_test(options));
  Ops& ops = under_test.ops();
  const auto count = static_cast<int32_t>(tokens.size());
  SLIP_TRY(const auto probe, Probe::load(checkpoint, patient->config, ops, load, count + kEngineTokens, patient->cache));
  report->checks.push_back(passed("checkpoint", "consumed", "every tensor is used, none is missing"));
  report->kernels_json = kernel_report_json(ops);
  report->kernels_text = kernel_report_text(ops);
  progress("the serving executor against a plain forward pass");
  if (texts.ok()) check_engine(*probe, *texts, ops.name(), ops.name() != "cuda" || options.backend.deterministic, report);

  progress("the reference's forward pass, " + std::to_string(count) + " rows");
  const auto reference = make_reference_ops(options.reference_threads);
  SLIP_TRY(const auto oracle, Probe::load(checkpoint, patient->config, *reference, load, count, patient->cache));
  check_layers(*probe, *oracle, tokens, step_error(ops.name(), checkpoint), report);
  return Ok{};
}

/// Every op, each on its own: what the layers check found has a name then.
Status check_each_op(const DoctorOptions& options, const LoadOptions& load, std::span<const int32_t> tokens, Patient* patient,
                     DoctorReport* report, const DoctorProgress& progress) {
  SLIP_TRY(UnderTest under_test, make_under_test(options));
  CheckedOps checked(under_test.ops(), options.reference_threads);
  checked.set_checking(false);
  SLIP_TRY(const auto probe, Probe::load(*patient->checkpoint, patient->config, checked, load, static_cast<int32_t>(tokens.size()),
                                         patient->cache));
  check_ops(*probe, checked, tokens, report, progress);
  const int32_t bad = report->first_bad_layer;
  const bool named = std::ranges::any_of(report->failing_ops, [bad](const CheckFailure& failure) {
    return layer_of_tensor(failure.tensor.empty() ? failure.after : failure.tensor) <= bad;
  });
  if (bad >= 0 && bad < patient->config.layers && !named) bisect_layer(*probe, checked, tokens, report);
  return Ok{};
}

/// Checks that need the weights. An error is a finding. One copy of them at a time: two may not fit.
Status run_checks(const DoctorOptions& options, std::span<const int32_t> tokens, Patient* patient, DoctorReport* report,
                  const DoctorProgress& progress) {
  LoadOptions load;
  load.dummy = options.dummy;
  load.dummy_seed = options.seed;
  load.progress = [&progress](uint64_t done, uint64_t all) {
    progress("loading weights: " + std::to_string(done >> 20) + " of " + std::to_string(all >> 20) + " MiB");
  };
  SLIP_RETURN_IF_ERROR(check_as_served(options, load, tokens, patient, report, progress));
  SLIP_RETURN_IF_ERROR(check_each_op(options, load, tokens, patient, report, progress));
  return patient->checkpoint->check_unchanged();
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
