// CUDA weights and products: stored values bit by bit, and each kernel against double arithmetic over odd shapes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_limits.h"
#include "tests/catch.h"
#include "tests/cuda/linear_fixture.h"

using namespace slipstream;
using namespace slipstream::cuda;
using namespace slipstream::cuda::test;
using slipstream::test::all_weight_formats;
using slipstream::test::Matrix;
using slipstream::test::matrix;
using slipstream::test::random_floats;

namespace {

/// The largest error of out [m, n] over what rounding allows: `per_step` of the summed magnitudes.
double worst_error(const std::vector<float>& out, const Matrix& w, const std::vector<float>& x, int32_t m,
                   const std::vector<float>& bias, double per_sum) {
  double worst = 0;
  for (int64_t n = 0; n < w.rows; ++n) {
    const std::vector<float> row = w.row(n);
    for (int32_t r = 0; r < m; ++r) {
      const double b = bias.empty() ? 0.0 : bias[static_cast<size_t>(n)];
      double exact = b;
      double magnitude = std::fabs(b);
      for (int64_t k = 0; k < w.cols; ++k) {
        const double term = double{row[static_cast<size_t>(k)]} * x[static_cast<size_t>(r * w.cols + k)];
        exact += term;
        magnitude += std::fabs(term);
      }
      const double error = std::fabs(double{out[static_cast<size_t>(r * w.rows + n)]} - exact);
      if (!(error <= 1e30)) return 1e30;  // NaN
      worst = std::max(worst, error / (per_sum * magnitude + 1e-30));
    }
  }
  return worst;
}

std::vector<float> run(LinearGpu& gpu, const Matrix& w, const DeviceRows& rows, const std::vector<float>& bias, bool simple) {
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
  const size_t count = static_cast<size_t>(rows.x.rows) * static_cast<size_t>(w.rows);
  Buffer out = to_device(gpu.context, std::vector<float>(count + 64, std::numeric_limits<float>::quiet_NaN()));
  const Buffer bias_buffer = to_device(gpu.context, bias);
  const float* b = bias.empty() ? nullptr : bias_buffer.as<float>();
  if (simple) linear_simple(gpu.context, *weight, rows.x, b, out.as<float>());
  else linear(gpu.context, gpu.scratch, *weight, rows.x, b, out.as<float>());
  std::vector<float> host = to_host<float>(gpu.context, out, count + 64);
  for (size_t i = count; i < host.size(); ++i) REQUIRE(std::isnan(host[i]));  // nothing past the end
  host.resize(count);
  return host;
}

/// What the kernels of `dtype` see of an activation.
const std::vector<float>& seen(const DeviceRows& rows, DType dtype) {
  return is_block(dtype) ? rows.as_int8 : dtype == DType::kF32 ? rows.as_f32 : rows.as_bf16;
}

constexpr double kFloatSum = 1e-6;  // of the summed magnitudes: chains of a few hundred fused products, then pairwise

}  // namespace

TEST_CASE("cuda weights keep every stored value", "[cuda][linear]") {
  LinearGpu gpu;
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  if (dtype == DType::kF8E4M3) return;  // no table of embeddings; see test_linear_f8.cpp
  const int64_t block = dtype_info(dtype).block_elements;
  std::vector<int64_t> widths = {256, 1536};
  if (block <= 32) widths.insert(widths.end(), {32, 64, 96, 576});
  if (block == 1) widths.insert(widths.end(), {1, 37});
  for (const int64_t cols : widths)
    for (const int64_t rows : {int64_t{1}, int64_t{16}, int64_t{37}}) {
      INFO(dtype_info(dtype).name << " " << rows << " x " << cols);
      const Matrix w = matrix(dtype, rows, cols, static_cast<uint32_t>(cols + rows));
      const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
      CHECK(weight->resident_bytes() == cuda_weight_bytes(w.spec));
      std::vector<int32_t> ids;
      for (int32_t r = 0; r < rows; ++r) ids.push_back(r);
      const Buffer device_ids = to_device(gpu.context, ids);
      Buffer out = gpu.context.allocate(static_cast<size_t>(rows * cols) * 4);
      embed(gpu.context, *weight, device_ids.as<int32_t>(), static_cast<int32_t>(rows), 1.0f, out.as<float>());
      const auto got = to_host<float>(gpu.context, out, static_cast<size_t>(rows * cols));
      int64_t different = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const std::vector<float> want = w.row(r);
        for (int64_t k = 0; k < cols; ++k)
          different += got[static_cast<size_t>(r * cols + k)] != want[static_cast<size_t>(k)];
      }
      CHECK(different == 0);
    }
}

TEST_CASE("cuda embedding clamps ids and scales", "[cuda][linear]") {
  LinearGpu gpu;
  Matrix table = matrix(DType::kQ8_0, 16, 96, 1);
  table.add(DType::kF16, 5, 96, 2);
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, table.spec);
  const std::vector<int32_t> ids = {-5, 0, 15, 16, 20, 21, 2147483647, -2147483647 - 1};
  const std::vector<int64_t> rows = {0, 0, 15, 16, 20, 20, 20, 0};
  const Buffer device_ids = to_device(gpu.context, ids);
  Buffer out = gpu.context.allocate(ids.size() * 96 * 4);
  embed(gpu.context, *weight, device_ids.as<int32_t>(), static_cast<int32_t>(ids.size()), 1.5f, out.as<float>());
  const auto got = to_host<float>(gpu.context, out, ids.size() * 96);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::vector<float> want = table.row(rows[i]);
    for (size_t k = 0; k < 96; ++k) REQUIRE(got[i * 96 + k] == 1.5f * want[k]);
  }
}

TEST_CASE("cuda linear equals the exact product of what it sees", "[cuda][linear]") {
  LinearGpu gpu;
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  const int64_t block = dtype_info(dtype).block_elements;
  struct Shape {
    int64_t cols, rows;
    int32_t m;
  };
  std::vector<Shape> shapes = {{256, 1, 1},   {512, 21, 3},  {1536, 40, 33}, {2048, 16, 8}, {1792, 130, 9},
                               {768, 257, 2}, {512, 48, 65}, {4096, 33, 16}, {256, 70, 200}};
  if (block <= 32) shapes.insert(shapes.end(), {{32, 5, 1}, {576, 72, 5}, {96, 33, 17}, {1184, 31, 40}});
  if (block == 1) shapes.insert(shapes.end(), {{37, 9, 2}, {8, 20, 3}, {200, 65, 12}});
  for (const Shape& s : shapes) {
    const Matrix w = matrix(dtype, s.rows, s.cols, 7);
    std::mt19937 rng(11);
    const auto values = random_floats(rng, static_cast<size_t>(s.m * s.cols));
    const auto bias = random_floats(rng, static_cast<size_t>(s.rows));
    const DeviceRows rows(gpu.context, values, s.m, s.cols, wanted_forms(dtype));
    for (const bool simple : {true, false}) {
      INFO(dtype_info(dtype).name << " K " << s.cols << " N " << s.rows << " M " << s.m << (simple ? " simple" : ""));
      CHECK(worst_error(run(gpu, w, rows, bias, simple), w, seen(rows, dtype), s.m, bias, kFloatSum) <= 1.0);
    }
  }
}

TEST_CASE("cuda linear of stacked parts, formats mixed, and of column slices", "[cuda][linear]") {
  LinearGpu gpu;
  Matrix w = matrix(DType::kQ4_K, 48, 1024, 1);
  w.add(DType::kQ4_K, 20, 1024, 2);   // joins the first
  w.add(DType::kQ4_K, 33, 1024, 3);   // 68 rows before it are not whole tiles: its own launch
  w.add(DType::kQ6_K, 16, 1024, 4);
  w.add(DType::kBF16, 7, 1024, 5);
  w.add(DType::kBF16, 10, 1024, 6);
  std::mt19937 rng(3);
  const auto values = random_floats(rng, 4 * 1024);
  const auto bias = random_floats(rng, static_cast<size_t>(w.rows));
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
  CHECK(weight->segments().size() == 4);
  CHECK(activation_forms(*weight) == (kActInt8Block32 | kActBF16));
  const DeviceRows rows(gpu.context, values, 4, 1024, kActInt8Block32 | kActBF16);
  const auto out = run(gpu, w, rows, bias, false);
  // Compare part by part: block formats saw int8, the others BF16.
  int64_t first = 0;
  for (const WeightPart& part : w.spec.parts) {
    Matrix one;
    one.spec.parts = {part};
    one.rows = part.rows;
    one.cols = part.cols;
    std::vector<float> part_out, part_bias(bias.begin() + first, bias.begin() + first + part.rows);
    for (int32_t r = 0; r < 4; ++r)
      part_out.insert(part_out.end(), out.begin() + r * w.rows + first, out.begin() + r * w.rows + first + part.rows);
    INFO(part.name);
    CHECK(worst_error(part_out, one, seen(rows, part.dtype), 4, part_bias, kFloatSum) <= 1.0);
    first += part.rows;
  }

  Matrix slice = matrix(DType::kQ4_0, 19, 2048, 9);
  slice.spec = slipstream::test::column_slice(slice.spec, 512, 1024);
  slice.spec.role = WeightRole::kRowLinear;
  slice.spec.virtual_shards = 4;
  slice.spec.first_shard = 1;
  slice.spec.local_shards = 2;
  slice.cols = 1024;
  CHECK(worst_error(run(gpu, slice, rows, {}, false), slice, rows.as_int8, 4, {}, kFloatSum) <= 1.0);
}

TEST_CASE("cuda linear: cuBLASLt for many rows", "[cuda][linear]") {
  LinearGpu gpu;
  if (gpu.scratch.blas() == nullptr) {
    WARN("cuBLASLt is not here: " << gpu.scratch.no_blas_reason());
    return;
  }
  const DType dtype = GENERATE(DType::kBF16, DType::kF16, DType::kQ4_K, DType::kQ2_K, DType::kQ8_0, DType::kMXFP4, DType::kF8E4M3);
  const int32_t m = kFewRowsQuant + 13;
  const Matrix w = matrix(dtype, 200, 512, 7);
  std::mt19937 rng(5);
  const auto values = random_floats(rng, static_cast<size_t>(m) * 512);
  const auto bias = random_floats(rng, 200);
  const DeviceRows rows(gpu.context, values, m, 512, kActBF16);
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
  gpu.scratch.plan(*weight);
  gpu.scratch.reserve(m);
  const int64_t allocations = gpu.context.allocations();
  Buffer out = to_device(gpu.context, std::vector<float>(static_cast<size_t>(m) * 200, 1e30f));
  const Buffer bias_buffer = to_device(gpu.context, bias);
  linear(gpu.context, gpu.scratch, *weight, rows.x, bias_buffer.as<float>(), out.as<float>());
  CHECK(gpu.context.allocations() == allocations + 2);
  // A block format's values are rounded to BF16 first: 2^-9 each.
  const double bound = needs_slice(dtype) ? 2.1e-3 : kFloatSum;
  const auto got = to_host<float>(gpu.context, out, static_cast<size_t>(m) * 200);
  CHECK(worst_error(got, w, rows.as_bf16, m, bias, bound) <= 1.0);
}

TEST_CASE("cuda linear: what was measured at start-up serves every row count", "[cuda][linear]") {
  LinearGpu gpu;
  const DType dtype = GENERATE(DType::kBF16, DType::kF16, DType::kQ4_K, DType::kQ8_0, DType::kQ6_K, DType::kF8E4M3);
  const Matrix w = matrix(dtype, 176, 2048, 7);
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
  gpu.scratch.plan(*weight);
  gpu.scratch.reserve(64);
  for (const int32_t m : {1, 3, 8, 9, 16, 20, 33, 64}) {
    std::mt19937 rng(static_cast<uint32_t>(m));
    const auto values = random_floats(rng, static_cast<size_t>(m) * 2048);
    const DeviceRows rows(gpu.context, values, m, 2048, wanted_forms(dtype));
    INFO(dtype_info(dtype).name << " M " << m);
    for (int repeat = 0; repeat < 2; ++repeat)  // counters of split products must be zero again
      CHECK(worst_error(run(gpu, w, rows, {}, false), w, seen(rows, dtype), m, {}, kFloatSum) <= 1.0);
  }
}

TEST_CASE("cuda linear: a row that is not finite stays alone", "[cuda][linear]") {
  LinearGpu gpu;
  const DType dtype = GENERATE(DType::kQ4_K, DType::kQ8_0, DType::kQ6_K, DType::kBF16, DType::kF16, DType::kF8E4M3);
  const Matrix w = matrix(dtype, 33, 512, 7);
  std::mt19937 rng(5);
  auto values = random_floats(rng, 9 * 512);
  DeviceRows clean(gpu.context, values, 9, 512, wanted_forms(dtype));
  const auto want = run(gpu, w, clean, {}, false);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (is_block(dtype)) {
    check(cudaMemcpy(clean.x.scale + 3 * 16 + 5, &nan, 4, cudaMemcpyHostToDevice), "poison");
  } else {
    const uint16_t bits = f32_to_bf16(nan);
    check(cudaMemcpy(clean.x.bf16 + 3 * 512 + 99, &bits, 2, cudaMemcpyHostToDevice), "poison");
  }
  const auto got = run(gpu, w, clean, {}, false);
  for (size_t i = 0; i < got.size(); ++i) {
    if (i / 33 == 3) REQUIRE(std::isnan(got[i]));
    else REQUIRE(got[i] == want[i]);
  }
}

TEST_CASE("cuda weights larger than the staging arrive whole", "[cuda][linear]") {
  LinearGpu gpu;
  const int64_t rows = 70000;
  std::vector<std::byte> bytes(static_cast<size_t>(rows) * 512 / 32 * 18);  // 20 MB of Q4_0, and 72 MB of BF16 below
  std::mt19937 rng(1);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng() & 0x3fu);
  std::vector<uint16_t> wide(static_cast<size_t>(rows) * 512);
  for (uint16_t& v : wide) v = static_cast<uint16_t>(rng() & 0x3fffu);
  WeightSpec spec;
  spec.parts = {{"a", DType::kQ4_0, rows, 512, bytes.data(), 288},
                {"b", DType::kBF16, rows, 512, reinterpret_cast<const std::byte*>(wide.data()), 1024}};
  const auto weight = make_cuda_weight(gpu.context, gpu.stream, spec);
  std::vector<int32_t> ids;
  for (int i = 0; i < 500; ++i) ids.push_back(static_cast<int32_t>(rng() % (2 * rows)));
  ids.push_back(static_cast<int32_t>(2 * rows - 1));
  const Buffer device_ids = to_device(gpu.context, ids);
  Buffer out = gpu.context.allocate(ids.size() * 512 * 4);
  embed(gpu.context, *weight, device_ids.as<int32_t>(), static_cast<int32_t>(ids.size()), 1.0f, out.as<float>());
  const auto got = to_host<float>(gpu.context, out, ids.size() * 512);
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<float> want(512);
    if (ids[i] < rows) dequantize_row(DType::kQ4_0, bytes.data() + int64_t{ids[i]} * 288, want.data(), 512);
    else dequantize_row(DType::kBF16, reinterpret_cast<const std::byte*>(wide.data()) + (ids[i] - rows) * 1024, want.data(), 512);
    REQUIRE(std::equal(want.begin(), want.end(), got.begin() + static_cast<int64_t>(i) * 512));
  }
}

TEST_CASE("cuda weights that cannot be served are refused with a reason", "[linear]") {
  const Matrix w = matrix(DType::kQ8_0, 4, 64, 1);
  CHECK(unsupported_reason(w.spec).empty());
  WeightSpec spec = w.spec;
  spec.parts[0].dtype = DType::kI32;
  CHECK(unsupported_reason(spec) == "tensor 'w1' (I32): integers cannot be multiplied");
  spec = w.spec;
  spec.parts[0].cols = 48;
  CHECK(unsupported_reason(spec) == "tensor 'w1' (Q8_0): 48 columns are not whole blocks of 32");
  spec = w.spec;
  spec.role = WeightRole::kRowLinear;
  spec.local_shards = 3;
  CHECK(unsupported_reason(spec) == "tensor 'w1' (Q8_0): 64 columns cannot be cut in 3 equal shards");
}
