// Every block shape that is built, with every way of cutting K and rows, against the simple twin.
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/linear_f8.cuh"
#include "kernels/cuda/linear_float.cuh"
#include "kernels/cuda/linear_quant.cuh"
#include "kernels/cuda/linear_shape.h"
#include "tests/catch.h"
#include "tests/cuda/linear_fixture.h"

using namespace slipstream;
using namespace slipstream::cuda;
using namespace slipstream::cuda::test;

namespace {

std::vector<TileShape> built_shapes(const Context& context, DType dtype) {
  std::vector<TileShape> shapes;
  for (const int32_t stages : {2, 3, 4})
    for (const auto& [splits, blocks] : {std::pair{1, 0}, std::pair{3, 0}, std::pair{8, 0}, std::pair{1, 2}}) {
#define SLIPSTREAM_ADD(NT, WR, WK) shapes.push_back({NT, WR, WK, stages, splits, blocks});
      SLIPSTREAM_LINEAR_SHAPES(SLIPSTREAM_ADD)
#undef SLIPSTREAM_ADD
    }
  for (const int32_t stages : {2, 3, 4})
    for (const int32_t blocks : {0, 2})
      for (const int32_t nt : {2, 4, 8}) shapes.push_back({nt, 8, 1, stages, 1, blocks, true});
  if (dtype != DType::kF8E4M3 || context.arch() != 90) return shapes;
  for (const int32_t stages : {2, 3, 4})
    for (const auto& [splits, blocks] : {std::pair{1, 0}, std::pair{3, 0}, std::pair{8, 0}, std::pair{1, 2}}) {
#define SLIPSTREAM_ADD(NT, WR) shapes.push_back({NT, WR, 1, stages, splits, blocks, false, true});
      SLIPSTREAM_F8_WGMMA_SHAPES(SLIPSTREAM_ADD)
#undef SLIPSTREAM_ADD
    }
  return shapes;
}

}  // namespace

TEST_CASE("cuda linear: every block shape equals the simple twin", "[cuda][linear]") {
  LinearGpu gpu;
  const DType dtype = GENERATE(DType::kBF16, DType::kF16, DType::kQ4_K, DType::kQ8_0, DType::kQ2_K, DType::kQ6_K, DType::kQ5_1,
                               DType::kMXFP4, DType::kF8E4M3);
  struct Case {
    int64_t rows, cols;
    int32_t m;
  };
  // 1184 columns end inside a stage of either kind; 1536 are whole stages.
  const std::vector<Case> cases = {{300, 1536, 1}, {300, 1536, 11}, {77, 2048, 40}, {130, 1024, 64}, {200, 1184, 5}};
  for (const Case& c : cases) {
    if (c.cols % dtype_info(dtype).block_elements != 0) continue;
    const auto w = slipstream::test::matrix(dtype, c.rows, c.cols, 3);
    const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
    std::mt19937 rng(9);
    const auto values = slipstream::test::random_floats(rng, static_cast<size_t>(c.m * c.cols));
    const DeviceRows rows(gpu.context, values, c.m, c.cols, wanted_forms(dtype));
    const size_t count = static_cast<size_t>(c.m * c.rows);
    Buffer out = gpu.context.allocate(count * sizeof(float));
    linear_simple(gpu.context, *weight, rows.x, nullptr, out.as<float>());
    const auto want = to_host<float>(gpu.context, out, count);
    double norm = 0;
    for (const float v : want) norm += double{v} * v;
    const double typical = std::sqrt(norm / static_cast<double>(count));
    REQUIRE(typical > 0.01);
    int run = 0;
    for (const TileShape& s : built_shapes(gpu.context, dtype)) {
      const size_t shared = dtype == DType::kF8E4M3 ? f8_shared_bytes(s, c.m) : is_block(dtype) ? quant_shared_bytes(dtype, s, c.m) : float_shared_bytes(s, c.m);
      if (shared + 256 > gpu.context.shared_bytes_per_block()) continue;  // 256: the kernels' static bytes
      INFO(dtype_info(dtype).name << " N " << c.rows << " K " << c.cols << " M " << c.m << " shape " << s.nt << s.wr << s.wk << " stages "
                                  << s.stages << " splits " << s.splits << " blocks " << s.blocks << (s.serial ? " serial" : "") << (s.wgmma ? " wgmma" : ""));
      check(cudaMemsetAsync(out.data(), 0xff, out.bytes(), gpu.context.stream()), "poison");
      const WeightSegment& segment = weight->segments().front();
      const LinearOutput o{nullptr, out.as<float>(), c.rows, c.m, static_cast<int32_t>(c.rows), s.splits, gpu.scratch.partials(),
                           gpu.scratch.counters()};
      if (is_block(dtype)) {
        QuantLinearParams p{};
        p.weight = reinterpret_cast<const uint8_t*>(segment.data);
        p.tile_bytes = segment.tile_bytes;
        p.tiles = static_cast<int32_t>((c.rows + 15) / 16);
        p.k = static_cast<int32_t>(c.cols);
        p.x = rows.x.q, p.x_scale = rows.x.scale, p.x_sum = rows.x.sum;
        p.o = o;
        launch_quant(gpu.context, dtype, p, s);
      } else if (dtype == DType::kF8E4M3) {
        launch_f8(gpu.context, {reinterpret_cast<const uint8_t*>(segment.data), segment.scales, static_cast<int32_t>(c.cols), rows.x.bf16, 0, o}, s);
      } else {
        launch_float(gpu.context, dtype, {reinterpret_cast<const uint16_t*>(segment.data), static_cast<int32_t>(c.cols), rows.x.bf16, 0, o, {}}, s);
      }
      const auto got = to_host<float>(gpu.context, out, count);
      double worst = 0;
      for (size_t i = 0; i < count; ++i) {
        const double error = std::fabs(double{got[i]} - want[i]);
        worst = std::max(worst, error <= 1e30 ? error : 1e30);
      }
      CHECK(worst <= 2e-5 * typical);
      ++run;
    }
    CHECK(run >= 14);
  }
}

namespace {

/// A kernel that finishes sums in every way, with the warps that its squares are grouped by.
struct Variant {
  std::string name;
  int32_t wr;
  std::function<void(const LinearOutput&, const LinearFinish&)> launch;
};

std::vector<Variant> finishing_variants(Context& context, const WeightSegment& w, const Activation& x) {
  std::vector<Variant> variants;
  const DType dtype = w.dtype;
  const auto k = static_cast<int32_t>(x.cols);
  for (const TileShape& s : built_shapes(context, dtype)) {
    const size_t shared = dtype == DType::kF8E4M3 ? f8_shared_bytes(s, x.rows) : float_shared_bytes(s, x.rows);
    if (s.wk == 1 || shared + 256 > context.shared_bytes_per_block()) continue;
    const std::string name = "mma " + std::to_string(s.nt) + std::to_string(s.wr) + std::to_string(s.wk) + " stages " + std::to_string(s.stages) +
                             " splits " + std::to_string(s.splits) + " blocks " + std::to_string(s.blocks);
    variants.push_back({name, s.wr, [&context, &w, &x, dtype, s, k](LinearOutput o, const LinearFinish& f) {
      o.splits = s.splits;
      if (dtype == DType::kF8E4M3) return launch_f8(context, {reinterpret_cast<const uint8_t*>(w.data), w.scales, k, x.bf16, 0, o, f}, s);
      launch_float(context, dtype, {reinterpret_cast<const uint16_t*>(w.data), k, x.bf16, 0, o, f}, s);
    }});
  }
  return variants;
}

}  // namespace

TEST_CASE("cuda linear: every block shape finishes SwiGLU, the residual and a norm", "[cuda][linear]") {
  LinearGpu gpu;
  const DType dtype = GENERATE(DType::kBF16, DType::kF16, DType::kF8E4M3);
  struct Case {
    int64_t rows, cols;
    int32_t m;
  };
  for (const Case& c : {Case{288, 1536, 1}, Case{352, 1184, 7}, Case{160, 2048, 16}}) {
    const auto w = slipstream::test::matrix(dtype, c.rows, c.cols, 3);
    const auto weight = make_cuda_weight(gpu.context, gpu.stream, w.spec);
    std::mt19937 rng(9);
    const auto values = slipstream::test::random_floats(rng, static_cast<size_t>(c.m * c.cols));
    const DeviceRows rows(gpu.context, values, c.m, c.cols, kActBF16);
    const auto bias = slipstream::test::random_floats(rng, static_cast<size_t>(c.rows));
    const auto norm = slipstream::test::random_floats(rng, static_cast<size_t>(c.rows));
    const auto residual = slipstream::test::random_floats(rng, static_cast<size_t>(c.m * c.rows));
    const int32_t groups = 5;
    auto squares = slipstream::test::random_floats(rng, static_cast<size_t>(c.m * groups));
    for (float& s : squares) s = s * s * 100.0f;
    const Buffer device_bias = to_device(gpu.context, bias), device_norm = to_device(gpu.context, norm);
    const Buffer device_squares = to_device(gpu.context, squares);
    const size_t count = static_cast<size_t>(c.m * c.rows);
    Buffer out = gpu.context.allocate(count * sizeof(float));
    linear_simple(gpu.context, *weight, rows.x, nullptr, out.as<float>());
    std::vector<float> want = to_host<float>(gpu.context, out, count);
    for (int32_t r = 0; r < c.m; ++r) {
      double sum = 0;
      for (int32_t g = 0; g < groups; ++g) sum += squares[static_cast<size_t>(r * groups + g)];
      const double factor = 1 / std::sqrt(sum / static_cast<double>(c.cols) + 1e-3);
      for (int64_t n = 0; n < c.rows; ++n) {
        float& v = want[static_cast<size_t>(r * c.rows + n)];
        v = static_cast<float>(v * factor + bias[static_cast<size_t>(n)]);
      }
    }
    const auto close = [](double got, double wanted, double size) { return std::fabs(got - wanted) <= 1e-5 * size + std::fabs(wanted) * 0x1.02p-8; };
    int run = 0;
    for (const Variant& s : finishing_variants(gpu.context, weight->segments().front(), rows.x)) {
      INFO(dtype_info(dtype).name << " N " << c.rows << " K " << c.cols << " M " << c.m << ' ' << s.name);
      LinearFinish f;
      f.x_squares = device_squares.as<float>(), f.x_groups = groups, f.eps = 1e-3f;
      const Buffer stored = to_device(gpu.context, std::vector<float>(count, NAN));
      const LinearOutput o{device_bias.as<float>(), stored.as<float>(), c.rows, c.m, static_cast<int32_t>(c.rows), 1, gpu.scratch.partials(),
                           gpu.scratch.counters()};
      s.launch(o, f);
      const auto plain = to_host<float>(gpu.context, stored, count);
      bool good = true;
      for (size_t i = 0; i < count; ++i) good = good && std::fabs(double{plain[i]} - want[i]) <= 2e-5 * (1 + std::fabs(want[i]));
      CHECK(good);

      const Buffer rounded = to_device(gpu.context, std::vector<uint16_t>(count, 0xffff));
      f.kind = Finish::kSwiglu, f.rounded = rounded.as<uint16_t>();
      s.launch(o, f);
      auto bf16 = to_host<uint16_t>(gpu.context, rounded, count);
      good = true;
      for (int32_t r = 0; r < c.m; ++r)
        for (int64_t n = 0; n < c.rows / 2; ++n) {
          const double gate = want[static_cast<size_t>(r * c.rows + n)], up = want[static_cast<size_t>(r * c.rows + c.rows / 2 + n)];
          good = good && close(bf16_to_f32(bf16[static_cast<size_t>(r * c.rows / 2 + n)]), gate / (1 + std::exp(-gate)) * up, 1 + std::fabs(gate) + std::fabs(up));
        }
      CHECK(good);

      const Buffer sum = to_device(gpu.context, residual), sums = to_device(gpu.context, std::vector<float>(count, -1.0f));
      f.kind = Finish::kAdd, f.residual = sum.as<float>(), f.norm = device_norm.as<float>(), f.squares = sums.as<float>();
      s.launch(o, f);
      const auto got = to_host<float>(gpu.context, sum, count);
      bf16 = to_host<uint16_t>(gpu.context, rounded, count);
      const int32_t group = squares_group(s.wr);
      const auto got_squares = to_host<float>(gpu.context, sums, count / static_cast<size_t>(group));
      good = true;
      for (size_t i = 0; i < count; ++i) {
        good = good && std::fabs(double{got[i]} - (residual[i] + want[i])) <= 2e-5 * (1 + std::fabs(want[i]));
        good = good && close(bf16_to_f32(bf16[i]), got[i] * norm[i % static_cast<size_t>(c.rows)], 1);
      }
      for (size_t g = 0; g < got_squares.size(); ++g) {
        double wanted = 0;
        for (size_t i = g * static_cast<size_t>(group); i < (g + 1) * static_cast<size_t>(group); ++i) wanted += double{got[i]} * got[i];
        good = good && std::fabs(got_squares[g] - wanted) <= 1e-5 * wanted;
      }
      CHECK(good);
      ++run;
    }
    CHECK(run > (dtype == DType::kF8E4M3 ? 3 : 10));  // an FP8 stage is twice as long
  }
}
