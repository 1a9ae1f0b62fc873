// Tiny models of every architecture on the GPU: against Hugging Face transformers with plain kernels in float, and against
// the reference backend on the same stored weights for every format that can be quantised here.
#include <algorithm>
#include <cmath>

#include "tests/model/golden_check.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

/// Root mean square error over the root mean square of `want`.
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  double square = 0, error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    square += double{want[i]} * want[i];
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
  }
  REQUIRE(square > 0);
  return std::isnan(error) ? INFINITY : std::sqrt(error / square);
}

}  // namespace

TEST_CASE("cuda models: float weights and cache equal transformers", "[cuda][models]") {
  // F32 weights and an F32 cache run in plain float kernels: only the order of sums differs from the reference's 1e-5.
  for (const std::string& name : golden_names()) {
    const Golden golden = read_golden(name);
    MemoryCheckpoint folder = tiny_safetensors(golden);
    const auto runner = runner_of(folder, {.backend = "cuda"});
    for (const int32_t chunk : {0, 16, 5}) {
      INFO(name << ", chunks of " << chunk);
      for (const GoldenPrompt& prompt : golden.prompts) {
        const double worst = max_error(prompt, runner->run(prompt.ids, prompt.positions, chunk));
        CHECK(worst < 5e-5);
      }
    }
  }
}

TEST_CASE("cuda models: stored formats stay close to the reference backend", "[cuda][models]") {
  // BF16 activations round at 2^-9, int8 ones at 1/254 of a block's maximum; two layers on logits of standard deviation
  // 1. A wrong scale, head or block is off by the order of 1.
  for (const std::string& name : golden_names()) {
    const Golden golden = read_golden(name);
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
      MemoryCheckpoint folder = dtype == DType::kBF16 ? tiny_safetensors(golden, dtype) : tiny_gguf(golden, dtype);
      if (dtype != DType::kBF16 && name == "qwen2-upper-window") continue;  // GGUF has no key for it
      const auto reference = runner_of(folder, {.backend = "reference", .cache_dtype = DType::kBF16});
      const auto cuda = runner_of(folder, {.backend = "cuda", .cache_dtype = DType::kBF16});
      for (const int32_t chunk : {0, 24, 3}) {
        double worst = 0;
        for (const GoldenPrompt& prompt : golden.prompts)
          worst = std::max(worst, relative_error(cuda->run(prompt.ids, prompt.positions, chunk),
                                                 reference->run(prompt.ids, prompt.positions, chunk)));
        INFO(name << ' ' << dtype_info(dtype).name << ", chunks of " << chunk << ": relative error " << worst);
        CHECK(worst < 0.03);
      }
    }
  }
}

TEST_CASE("cuda models: FP8 weights stay close to the reference backend and to transformers", "[cuda][models]") {
  for (const std::string& name : golden_f8_names()) {
    const Golden golden = read_golden(name);
    MemoryCheckpoint folder = tiny_safetensors(golden, DType::kBF16);
    const auto reference = runner_of(folder, {.backend = "reference", .cache_dtype = DType::kBF16});
    const auto cuda = runner_of(folder, {.backend = "cuda", .cache_dtype = DType::kBF16});
    for (const int32_t chunk : {0, 24, 3}) {
      double worst = 0;
      for (const GoldenPrompt& prompt : golden.prompts) {
        const auto got = cuda->run(prompt.ids, prompt.positions, chunk);
        worst = std::max(worst, relative_error(got, reference->run(prompt.ids, prompt.positions, chunk)));
        CHECK(max_error(prompt, got) < 0.2);  // on logits up to 4: embedding, head and cache are BF16 here
      }
      INFO(name << ", chunks of " << chunk << ": relative error " << worst);
      CHECK(worst < 0.03);
    }
  }
}

TEST_CASE("cuda models: an fp8 cache stays close to the reference backend's", "[cuda][models]") {
  // K and V after BF16 products fall to the other side of a code's edge now and then, a step of up to 1/8 each time.
  for (const std::string& name : golden_names()) {
    const Golden golden = read_golden(name);
    MemoryCheckpoint folder = tiny_safetensors(golden, DType::kBF16);
    const auto reference = runner_of(folder, {.backend = "reference", .cache_dtype = DType::kF8E4M3});
    const auto cuda = runner_of(folder, {.backend = "cuda", .cache_dtype = DType::kF8E4M3});
    for (const int32_t chunk : {0, 24, 3}) {
      double worst = 0;
      for (const GoldenPrompt& prompt : golden.prompts)
        worst = std::max(worst, relative_error(cuda->run(prompt.ids, prompt.positions, chunk),
                                               reference->run(prompt.ids, prompt.positions, chunk)));
      INFO(name << ", chunks of " << chunk << ": relative error " << worst);
      CHECK(worst < 0.1);
    }
  }
}

TEST_CASE("cuda models: nothing is allocated after warm-up", "[cuda][models]") {
  const Golden golden = read_golden("llama-tied");
  MemoryCheckpoint folder = tiny_safetensors(golden, DType::kBF16);
  const auto runner = runner_of(folder, {.backend = "cuda", .cache_dtype = DType::kBF16});
  runner->run(golden.prompts[0].ids, golden.prompts[0].positions);
  const int64_t before = runner->ops().allocations_after_warm_up();
  for (const GoldenPrompt& prompt : golden.prompts) runner->run(prompt.ids, prompt.positions);
  CHECK(runner->ops().allocations_after_warm_up() == before);
}

TEST_CASE("cuda models: a step that only the device knows is narrowed to its last rows", "[cuda][models]") {
  for (const std::string& name : golden_names()) {
    const Golden golden = read_golden(name);
    MemoryCheckpoint folder = tiny_safetensors(golden, DType::kBF16);
    const auto host = runner_of(folder, {.backend = "cuda", .cache_dtype = DType::kBF16});
    const auto device = runner_of(folder, {.backend = "cuda", .cache_dtype = DType::kBF16, .device_owned = true});
    for (const GoldenPrompt& prompt : golden.prompts)
      for (const int32_t last : {1, 3}) {
        const auto tokens = static_cast<int32_t>(prompt.ids.size());
        std::vector<int32_t> wanted;
        for (int32_t i = std::max(0, tokens - last); i < tokens; ++i) wanted.push_back(i);
        INFO(name << ", " << tokens << " tokens, logits of " << wanted.size());
        // the same rows in the same kernels, but for attention's split plan
        CHECK(relative_error(device->run(prompt.ids, wanted), host->run(prompt.ids, wanted)) < 5e-3);
      }
  }
}
