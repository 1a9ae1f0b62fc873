// The doctor on the GPU: every op of tiny models of every architecture against the reference through CheckedOps, every
// layer, and decode from captured graphs against plain forward passes; and a planted fault that it finds.
#include <cstdlib>

#include "tests/model/doctor_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

DoctorOptions on_gpu() {
  DoctorOptions options = options_for("cuda");
  const char* features = std::getenv("SLIPSTREAM_CUDA_FEATURES");
  options.backend.cuda_feature_level = features == nullptr ? "" : features;
  return options;
}

}  // namespace

TEST_CASE("cuda doctor: nothing wrong with tiny models in every stored format", "[cuda][models][doctor]") {
  for (const std::string& name : golden_names())
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
      const Golden golden = read_golden(name);
      const bool block = dtype_info(dtype).block_elements > 1;
      if (block && name != "llama-tied" && name != "qwen3") continue;
      MemoryCheckpoint folder = block ? tiny_gguf(golden, dtype) : tiny_safetensors(golden, dtype);
      const DoctorReport report = examined(folder, on_gpu());
      INFO(name << ' ' << dtype_info(dtype).name << '\n' << doctor_text(report));
      CHECK(report.ok());
      CHECK(report.ops.at("attention").cases > 60);
      CHECK(report.ops.at("sample").cases >= 4);
      CHECK(report.ops.at("linear " + std::string(dtype_info(dtype).name)).cases > 100);
      CHECK(report.checks.back().name == "decode from captured graphs");
    }
}

TEST_CASE("cuda doctor: nothing wrong with tiny FP8 models", "[cuda][models][doctor]") {
  for (const std::string& name : golden_f8_names()) {
    MemoryCheckpoint folder = tiny_safetensors(read_golden(name));
    const DoctorReport report = examined(folder, on_gpu());
    INFO(name << '\n' << doctor_text(report));
    CHECK(report.ok());
    CHECK(report.ops.at("linear F8_E4M3").cases > 100);
  }
}

TEST_CASE("cuda doctor: names a weight that the GPU alone has wrong", "[cuda][models][doctor]") {
  const std::string tensor = "model.layers.1.self_attn.o_proj.weight";
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    MemoryCheckpoint folder = tiny_safetensors(read_golden("qwen3"), dtype);
    DoctorOptions options = on_gpu();
    options.fault = [&](Ops& inner) { return std::make_unique<ScaledWeight>(inner, tensor, 1.25f); };
    const DoctorReport report = examined(folder, options);
    INFO(doctor_text(report));
    CHECK_FALSE(report.ok());
    REQUIRE_FALSE(report.failing_ops.empty());
    for (const CheckFailure& failure : report.failing_ops) CHECK(failure.tensor == tensor);
    CHECK(report.first_bad_layer == 1);
  }
}
