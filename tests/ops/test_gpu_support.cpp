// Which GPU a build serves, and what it says to the others. The table is CUDA's binary compatibility, written out.
#include "kernels/gpu_support.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("machine code runs on its own major from its minor on; f stays in its family, a on one GPU", "[gpu_support]") {
  struct Row {
    const char* target;
    std::vector<int32_t> runs, refuses;
  };
  const std::vector<Row> rows = {{"80", {80, 86, 87, 89}, {75, 90, 100, 120}},
                                 {"86", {86, 87, 89}, {80, 90}},
                                 {"89", {89}, {80, 86, 90}},
                                 {"90a", {90}, {89, 100, 120}},
                                 {"90", {90}, {89, 100}},
                                 {"100f", {100, 103}, {90, 101, 110, 120}},
                                 {"120f", {120, 121}, {100, 103, 130}},
                                 {"", {}, {80, 90}},
                                 {"90x", {}, {90}},
                                 {"compute_90", {}, {90}}};
  for (const Row& row : rows) {
    for (const int32_t arch : row.runs) {
      INFO(row.target << " on " << arch);
      CHECK(target_runs_on(row.target, arch));
    }
    for (const int32_t arch : row.refuses) {
      INFO(row.target << " on " << arch);
      CHECK_FALSE(target_runs_on(row.target, arch));
    }
  }
}

TEST_CASE("a GPU without kernels is refused with its name, the list and the build that serves it", "[gpu_support]") {
  const std::string all = "80 86 89 90a 100f 120f";
  for (const int32_t arch : {80, 86, 89, 90, 100, 103, 120, 121}) CHECK(no_kernels_reason("some GPU", arch, all).empty());
  CHECK(no_kernels_reason("NVIDIA A10", 86, "90a") ==
        "GPU 'NVIDIA A10' has compute capability 8.6, and this build has kernels for 90a; the preset release-all serves it "
        "(80 86 89 90a 100f 120f), or one with -DSLIPSTREAM_CUDA_ARCHS=86");
  CHECK(no_kernels_reason("NVIDIA H200", 90, "80 86 120f").find("-DSLIPSTREAM_CUDA_ARCHS=90a") != std::string::npos);
  CHECK(no_kernels_reason("Tesla T4", 75, all) ==
        "GPU 'Tesla T4' has compute capability 7.5, and this build has kernels for 80 86 89 90a 100f 120f; no build serves it, "
        "the oldest that is served is 8.0");
  const std::string newer = no_kernels_reason("a GPU of 2028", 130, all);
  CHECK(newer.find("-DSLIPSTREAM_CUDA_ARCHS=130 and an nvcc that knows it") != std::string::npos);
  CHECK(no_kernels_reason("x", 90, "").find("has kernels for none") != std::string::npos);
}

TEST_CASE("feature levels: their names, and none above what the GPU has", "[gpu_support]") {
  CHECK(feature_level("") == 0);
  CHECK(feature_level("sm80") == 80);
  CHECK(feature_level("sm120") == 120);
  for (const char* word : {"80", "sm90", "SM80", "sm8", "sm800", " sm80"}) CHECK_FALSE(feature_level(word).has_value());
  for (const int32_t level : {0, 80, 86, 89, 120}) CHECK(feature_level_reason(level, 90).empty());
  for (const int32_t level : {80, 86, 89, 120}) CHECK(feature_level_reason(level, 120).empty());
  CHECK(feature_level_reason(80, 80).empty());
  CHECK(feature_level_reason(89, 86) ==
        "feature level sm89 needs compute capability 8.9, the GPU has 8.6; use sm80 or leave it out");
  CHECK(feature_level_reason(120, 86).find("needs compute capability 8.9") != std::string::npos);
  CHECK(feature_level_reason(90, 90) == "feature level 90 is none of 80, 86, 89, 120");
}
