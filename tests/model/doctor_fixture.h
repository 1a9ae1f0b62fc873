// The doctor over checkpoints in memory, and a weight that one backend has wrong. Shared by the tests on CPU and GPU.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/doctor/doctor.h"
#include "tests/catch.h"
#include "tests/model/tiny_model.h"

namespace slipstream::test {

inline DoctorOptions options_for(const std::string& backend) {
  DoctorOptions options;
  options.model = "memory";
  options.backend.backend = backend;
  options.backend.threads = 2;
  options.rows = 40;
  return options;
}

inline DoctorReport examined(MemoryCheckpoint& folder, const DoctorOptions& options) {
  const auto report = examine(&folder, "", options, [](const std::string&) {});
  INFO((report.ok() ? "" : report.error().message));
  REQUIRE(report.ok());
  return *report;
}

/// Scales, in one backend only, the weight whose tensor has this name.
class ScaledWeight final : public ForwardingOps {
 public:
  ScaledWeight(Ops& inner, std::string tensor, float factor) : ForwardingOps(inner), tensor_(std::move(tensor)), factor_(factor) {}
  std::unique_ptr<Weight> prepare_weight(WeightSpec spec) override {
    for (WeightPart& part : spec.parts) {
      if (part.name != tensor_) continue;
      std::vector<std::byte>& bytes = kept_.emplace_back(static_cast<size_t>(row_bytes(part.dtype, part.cols) * part.rows));
      for (int64_t r = 0; r < part.rows; ++r) {
        std::vector<float> row(static_cast<size_t>(part.cols));
        dequantize_row(part.dtype, part.data + r * part.row_stride_bytes, row.data(), part.cols);
        for (float& value : row) value *= factor_;
        quantize_row(part.dtype, row.data(), bytes.data() + r * row_bytes(part.dtype, part.cols), part.cols);
      }
      part.data = bytes.data();
      part.row_stride_bytes = row_bytes(part.dtype, part.cols);
    }
    return inner().prepare_weight(std::move(spec));
  }

 private:
  const std::string tensor_;
  const float factor_;
  std::list<std::vector<std::byte>> kept_;
};

}  // namespace slipstream::test
