// F8_E4M3 weights on the GPU: every layout of scales, slices, NaN codes, rows for cuBLASLt.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/linear.h"
#include "tests/catch.h"
#include "tests/cuda/linear_fixture.h"

using namespace slipstream;
using namespace slipstream::cuda;
using namespace slipstream::cuda::test;
using slipstream::test::Matrix;
using slipstream::test::matrix;
using slipstream::test::random_floats;
using slipstream::test::ScaleLayout;

namespace {

constexpr int64_t kWhole = WeightScales::kWholeSide;

std::vector<float> run(LinearGpu& gpu, const CudaWeight& weight, const DeviceRows& rows, bool simple) {
  const size_t count = static_cast<size_t>(rows.x.rows * weight.rows());
  Buffer out = to_device(gpu.context, std::vector<float>(count + 64, 1e30f));
  if (simple) linear_simple(gpu.context, weight, rows.x, nullptr, out.as<float>());
  else linear(gpu.context, gpu.scratch, weight, rows.x, nullptr, out.as<float>());
  std::vector<float> host = to_host<float>(gpu.context, out, count + 64);
  for (size_t i = count; i < host.size(); ++i) REQUIRE(host[i] == 1e30f);  // nothing past the end
  host.resize(count);
  return host;
}

/// The largest error over 1e-6 of the summed magnitudes.
double worst_error(const std::vector<float>& out, const Matrix& w, const std::vector<float>& x, int32_t m) {
  double worst = 0;
  for (int64_t n = 0; n < w.rows; ++n) {
    const std::vector<float> row = w.row(n);
    for (int32_t r = 0; r < m; ++r) {
      double exact = 0, magnitude = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        const double term = double{row[static_cast<size_t>(k)]} * x[static_cast<size_t>(r * w.cols + k)];
        exact += term, magnitude += std::fabs(term);
      }
      const double error = std::fabs(out[static_cast<size_t>(r * w.rows + n)] - exact);
      worst = std::max(worst, error <= 1e30 ? error / (1e-6 * magnitude + 1e-30) : 1e30);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("cuda FP8: every layout of scales, at many shapes", "[cuda][linear][f8]") {
  LinearGpu gpu;
  const std::vector<std::pair<ScaleLayout, bool>> layouts = {  // and whether the fast kernels serve whole chunks
      {{128, 128, DType::kBF16, 0, 0}, true},    {{128, 128, DType::kF32, 100, 256}, true}, {{128, 128, DType::kF32, 100, 72}, false},
      {{1, kWhole, DType::kF32, 5, 40}, true},   {{1, kWhole, DType::kBF16, 0, 0}, true},   {{kWhole, kWhole, DType::kF32, 3, 7}, true},
      {{64, 256, DType::kF32, 0, 128}, true},    {{3, 5, DType::kF32, 1, 2}, false},        {{kWhole, 64, DType::kF16, 0, 17}, false}};
  struct Shape {
    int64_t rows, cols;
    int32_t m;
  };
  for (const auto& [layout, fast] : layouts)
    for (const Shape& s : {Shape{1, 16, 1}, {40, 512, 3}, {133, 1184, 9}, {257, 768, 33}, {300, 2048, 17}, {48, 4096, 70}, {21, 300, 2}}) {
      INFO(layout.block_rows << " x " << layout.block_cols << " from " << layout.first_row << ", " << layout.first_col << ": " << s.rows
                             << " x " << s.cols << ", M " << s.m);
      Matrix w;
      w.add_f8(s.rows, s.cols, 3, layout);
      const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
      CHECK(weight->resident_bytes() == cuda_weight_bytes(w.spec));
      CHECK(activation_forms(*weight) == kActBF16);
      if (s.cols > 256) CHECK(f8_fast(weight->segments()[0], s.cols) == (fast && s.cols % 16 == 0));
      std::mt19937 rng(4);
      const DeviceRows rows(gpu.context, random_floats(rng, static_cast<size_t>(s.m * s.cols)), s.m, s.cols, kActBF16);
      CHECK(worst_error(run(gpu, *weight, rows, true), w, rows.as_bf16, s.m) <= 1.0);
      CHECK(worst_error(run(gpu, *weight, rows, false), w, rows.as_bf16, s.m) <= 1.0);
    }
}

TEST_CASE("cuda FP8: every code, in every place of a word", "[cuda][linear][f8]") {
  LinearGpu gpu;
  // Row r holds code r everywhere; a one at column c picks the element: the product is the value itself.
  Matrix w;
  w.add_f8(256, 256, 1, {1, kWhole, DType::kF32, 0, 0});
  const std::vector<float> ones(256, 1.0f);
  std::memcpy(w.bytes[1].data(), ones.data(), ones.size() * sizeof(float));
  for (size_t i = 0; i < 256 * 256; ++i) w.bytes[0][i] = static_cast<std::byte>(i / 256);
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
  std::vector<float> picks(16 * 256);
  for (size_t c = 0; c < 16; ++c) picks[c * 256 + 17 * c] = 1.0f;
  const DeviceRows rows(gpu.context, picks, 16, 256, kActBF16);
  for (const bool simple : {true, false}) {
    const auto out = run(gpu, *weight, rows, simple);
    for (size_t c = 0; c < 16; ++c)
      for (size_t code = 0; code < 256; ++code) {
        const float want = e4m3_to_f32(static_cast<uint8_t>(code));
        const float got = out[c * 256 + code];
        if ((code & 127) == 127) REQUIRE(std::isnan(got));
        else REQUIRE(got == want);
      }
  }
}

TEST_CASE("cuda FP8: stacked parts share a launch where their scales allow it", "[cuda][linear][f8]") {
  LinearGpu gpu;
  Matrix w;
  w.add_f8(128, 512, 1, {});
  w.add_f8(64, 512, 2, {});
  w.add_f8(37, 512, 3, {});                            // joins: 192 rows before it are whole tiles
  w.add_f8(30, 512, 4, {});                            // does not: 229 are not
  w.add_f8(48, 512, 5, {1, kWhole, DType::kF32, 0, 0});  // another layout
  w.add_f8(7, 512, 6, {1, kWhole, DType::kF32, 0, 0});
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
  REQUIRE(weight->segments().size() == 3);
  CHECK(weight->segments()[0].rows == 229);
  CHECK(weight->segments()[0].scales.group_rows == 16);
  CHECK(weight->segments()[2].scales.group_rows == 1);
  std::mt19937 rng(4);
  const DeviceRows rows(gpu.context, random_floats(rng, 5 * 512), 5, 512, kActBF16);
  CHECK(worst_error(run(gpu, *weight, rows, false), w, rows.as_bf16, 5) <= 1.0);
}

TEST_CASE("cuda FP8: a NaN code shows in its row", "[cuda][linear][f8]") {
  LinearGpu gpu;
  for (const ScaleLayout& layout : {ScaleLayout{}, ScaleLayout{1, kWhole, DType::kF32, 0, 0}}) {
    Matrix w;
    w.add_f8(300, 512, 1, layout);
    w.bytes[0][290 * 512 + 300] = std::byte{0xff};
    const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
    std::mt19937 rng(4);
    const DeviceRows rows(gpu.context, random_floats(rng, 3 * 512), 3, 512, kActBF16);
    for (const bool simple : {true, false}) {
      const auto out = run(gpu, *weight, rows, simple);
      for (size_t m = 0; m < 3; ++m)
        for (size_t n = 0; n < 300; ++n) {
          const bool same_scale = layout.block_rows == 1 ? n == 290 : n >= 288;  // its own, or a tile's
          CHECK(std::isnan(out[m * 300 + n]) == same_scale);
        }
    }
  }
}

TEST_CASE("cuda FP8: rows for cuBLASLt are code times scale, rounded once", "[cuda][linear][f8]") {
  LinearGpu gpu;
  for (const ScaleLayout& layout : {ScaleLayout{}, ScaleLayout{1, kWhole, DType::kF32, 0, 0}, ScaleLayout{128, 128, DType::kF32, 32, 384}}) {
    Matrix w;
    w.add_f8(100, 528, 8, layout);
    const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
    Buffer out = gpu.context.allocate(size_t{68} * 528 * 2);
    dequantise_f8_rows(gpu.context, weight->segments()[0], 528, 32, 68, out.as<uint16_t>());
    const auto got = to_host<uint16_t>(gpu.context, out, size_t{68} * 528);
    for (int64_t r = 0; r < 68; ++r) {
      const auto want = w.row(32 + r);
      for (size_t k = 0; k < 528; ++k) REQUIRE(got[static_cast<size_t>(r) * 528 + k] == f32_to_bf16(want[k]));
    }
  }
}
