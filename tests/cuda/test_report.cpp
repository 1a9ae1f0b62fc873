// The reports on a GPU: each op family with its kernel and architectures, and a forced feature level that they show.
#include "kernels/cuda/context.h"
#include "kernels/gpu_support.h"
#include "tests/catch.h"
#include "tests/cuda/feature_level.h"

using namespace slipstream;

namespace {

std::string fact(const Ops& ops, const std::string& name) {
  for (const MachineFact& f : ops.machine_report())
    if (f.name == name) return f.value;
  return {};
}

KernelChoice choice_of(const Ops& ops, const std::string& op) {
  for (const KernelChoice& choice : ops.kernel_report())
    if (choice.op.starts_with(op)) return choice;
  return {};
}

}  // namespace

TEST_CASE("cuda report: the GPU, and for each op family the kernel and what it was built for", "[cuda][report]") {
  const auto ops = make_cuda_ops({});
  ops->plan_attention(64, 8, 2, 128);
  const cuda::DeviceFacts facts = cuda::devices().at(0);
  CHECK(fact(*ops, "gpu") == facts.name);
  CHECK(fact(*ops, "compute_capability") == capability_text(facts.arch));
  CHECK(fact(*ops, "feature_level") == "sm" + std::to_string(facts.arch));
  CHECK(fact(*ops, "driver").find("for CUDA ") != std::string::npos);
  CHECK(fact(*ops, "built_for") == cuda::built_targets());
  for (const char* op : {"linear BF16", "linear, block", "attention decode", "attention prefill", "norm", "sample", "embedding"}) {
    const KernelChoice choice = choice_of(*ops, op);
    INFO(op);
    CHECK_FALSE(choice.kernel.empty());
    CHECK_FALSE(choice.built_for.empty());
  }
}

TEST_CASE("cuda report: a forced feature level and what it rules out", "[cuda][report]") {
  const auto ops = make_cuda_ops({.feature_arch = 80});
  ops->plan_attention(64, 8, 2, 128);
  const bool forced = cuda::devices().at(0).arch != 80;
  CHECK((fact(*ops, "feature_level") == "sm80") != forced);
  CHECK(fact(*ops, "feature_level").starts_with("sm80"));
  const KernelChoice prefill = choice_of(*ops, "attention prefill");
  CHECK(prefill.kernel == "mma.sync bf16");
  CHECK(prefill.why.find("compute capability 90 only") != std::string::npos);
  CHECK_THROWS_AS(make_cuda_ops({.feature_arch = 75}), DeviceError);
}
