// The choice of a backend where there is no GPU, or a build without kernels for one.
#include "engine/run/backend.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

std::string error_of(const BackendOptions& options) {
  const auto made = make_backend(options);
  return made.ok() ? "" : made.error().message;
}

}  // namespace

TEST_CASE("make_backend gives what was asked for, or one line", "[backend]") {
  CHECK((*make_backend({.backend = "reference"}))->name() == "reference");
  CHECK((*make_backend({.backend = "cpu", .threads = 1}))->name() == "cpu");
  CHECK(error_of({.backend = "cuda", .cuda_feature_level = "sm75"}) ==
        "cuda-feature-level 'sm75' is none of sm80, sm86, sm89, sm120");
  for (const char* backend : {"auto", "cpu", "reference"})
    CHECK(error_of({.backend = backend, .cuda_feature_level = "sm80"}) ==
          std::string("cuda-feature-level sm80 needs backend cuda, not ") + backend);
  std::string why;
  if (cuda_available(&why)) return;  // tests/cuda looks at the rest
  REQUIRE_FALSE(why.empty());
  CHECK(error_of({.backend = "cuda"}) == "backend cuda: " + why + "; use --backend cpu");
  std::string told;
  const auto chosen = make_backend({.backend = "auto", .threads = 1}, &told);
  REQUIRE(chosen.ok());
  CHECK((*chosen)->name() == "cpu");
  CHECK(told == why);
}

TEST_CASE("backends report the machine and a kernel for each op family", "[backend]") {
  for (const char* backend : {"cpu", "reference"}) {
    const auto ops = *make_backend({.backend = backend, .threads = 2});
    const auto machine = ops->machine_report();
    REQUIRE(machine.size() >= 2);
    CHECK(machine[0].name == "processor");
    CHECK_FALSE(machine[0].value.empty());
    CHECK(machine.back().value == (std::string(backend) == "cpu" ? "2" : "1"));
    for (const KernelChoice& choice : ops->kernel_report()) {
      CHECK_FALSE(choice.kernel.empty());
      CHECK(choice.built_for.empty());
    }
  }
}
