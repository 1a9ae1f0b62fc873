// Every block shape that is built, with every way of cutting K and rows, against the simple twin.
#include <cmath>
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
        launch_float(gpu.context, dtype, {reinterpret_cast<const uint16_t*>(segment.data), static_cast<int32_t>(c.cols), rows.x.bf16, 0, o}, s);
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
    CHECK(run > 40);
  }
}
