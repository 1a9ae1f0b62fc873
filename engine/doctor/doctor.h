// `slipstream doctor`: why does this model answer garbage? Opens it as serve would, then compares every op and every layer
// with the reference backend, and says which tensor, layer and op is wrong. Owns the checks and their report; knows no HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/run/backend.h"
#include "engine/weights/checkpoint.h"
#include "kernels/checked_ops.h"

namespace slipstream {

struct DoctorOptions {
  std::string model;               // path, .gguf or hub id
  BackendOptions backend;
  bool dummy = false;              // random weights of the config's shape
  uint64_t seed = 0;               // of dummy weights
  int32_t layers = 0;              // of the model; 0: all
  int32_t rows = 32;               // tokens of the compared forward passes, at least kMinRows
  std::string prompt;              // their text; empty: a built-in one
  std::string kv_cache_dtype = "auto";
  int32_t reference_threads = 1;
  /// Tests: puts a faulty backend in place of the one under test.
  std::function<std::unique_ptr<Ops>(Ops&)> fault;

  static constexpr int32_t kMinRows = 8, kMaxRows = 512;
};

enum class CheckStatus : uint8_t { kOk, kFailed, kSkipped };

/// One thing that was looked at.
struct DoctorCheck {
  std::string part;  // "checkpoint", "text", "engine"
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string text;  // what was found, in one line
};

/// The residual stream behind one layer, backend against reference; layer == layers of the model: the logits.
struct LayerCheck {
  int32_t layer = 0;
  double error = 0;  // of the worst row, relative
  double bound = 0;
  bool ok() const { return error <= bound; }
};

struct DoctorReport {
  std::string model;         // the path
  std::string backend;
  std::string machine_json, kernels_json, kernels_text;
  std::vector<DoctorCheck> checks;
  std::map<std::string, CheckTally> ops;   // by op family
  std::vector<CheckFailure> failing_ops;   // in order, at most CheckedOps::kMaxFailures
  std::vector<LayerCheck> layers;
  int32_t model_layers = 0;
  int32_t first_bad_layer = -1;            // -1: none
  std::string verdict;                     // one line
  double seconds = 0;

  bool ok() const;
};

/// Runs all checks. An error is a path that leads to no model, or a backend that cannot be had; what is wrong with the model
/// itself is in the report. `progress` gets one short line now and then.
Result<DoctorReport> run_doctor(DoctorOptions options, const std::function<void(const std::string&)>& progress);
/// The same for a checkpoint that is open already; null for one that could not be read, with the reason.
Result<DoctorReport> examine(Checkpoint* checkpoint, const std::string& unreadable, const DoctorOptions& options,
                             const std::function<void(const std::string&)>& progress);

/// For a terminal.
std::string doctor_text(const DoctorReport& report);
/// One JSON document.
std::string doctor_json(const DoctorReport& report);

}  // namespace slipstream
