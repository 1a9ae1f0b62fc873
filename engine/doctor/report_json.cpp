// See doctor.h: the report for programs.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/doctor/doctor.h"

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN and no infinity; "nan" says more than null.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

const char* word(CheckStatus status) {
  return status == CheckStatus::kOk ? "ok" : status == CheckStatus::kFailed ? "failed" : "skipped";
}

}  // namespace

std::string doctor_json(const DoctorReport& report) {
  Json out;
  out["ok"] = report.ok();
  out["verdict"] = report.verdict;
  out["model"] = report.model;
  out["machine"] = Json::parse(report.machine_json, nullptr, false);
  out["kernels"] = Json::parse(report.kernels_json, nullptr, false);
  out["checks"] = Json::array();
  for (const DoctorCheck& check : report.checks)
    out["checks"].push_back({{"part", check.part}, {"name", check.name}, {"status", word(check.status)}, {"text", check.text}});
  out["ops"] = Json::array();
  for (const auto& [family, tally] : report.ops)
    out["ops"].push_back({{"family", family},
                          {"cases", tally.cases},
                          {"failed", tally.failed},
                          {"error", number(tally.error)},
                          {"bound", number(tally.bound)},
                          {"ok", tally.failed == 0}});
  out["failing_ops"] = Json::array();
  for (const CheckFailure& failure : report.failing_ops)
    out["failing_ops"].push_back({{"op", failure.op},
                                  {"tensor", failure.tensor},
                                  {"format", failure.format},
                                  {"after", failure.after},
                                  {"row", failure.row},
                                  {"column", failure.column},
                                  {"got", number(failure.got)},
                                  {"want", number(failure.want)},
                                  {"error", number(failure.error)},
                                  {"bound", number(failure.bound)}});
  out["layers"] = Json::array();
  for (const LayerCheck& layer : report.layers)
    out["layers"].push_back({{"layer", layer.layer == report.model_layers ? Json("logits") : Json(layer.layer)},
                             {"error", number(layer.error)},
                             {"bound", number(layer.bound)},
                             {"ok", layer.ok()}});
  out["first_bad_layer"] = report.first_bad_layer < 0                          ? Json()
                           : report.first_bad_layer == report.model_layers ? Json("logits")
                                                                           : Json(report.first_bad_layer);
  out["seconds"] = report.seconds;
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace slipstream
