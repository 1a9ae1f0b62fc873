// A deterministic context: an output row's bits depend on its own content, never on the rows beside it, for every weight
// format. (Attention's part is in test_attention.cu, whole models and engines in test_engine.cpp.)
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/linear_shape.h"
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

/// Rows [first, first + count) of a larger activation, as one of its own.
Activation rows_of(const Activation& x, int32_t first, int32_t count) {
  Activation part = x;
  part.rows = count;
  const int64_t skip = int64_t{first} * x.cols;
  if (part.f32 != nullptr) part.f32 += skip;
  if (part.bf16 != nullptr) part.bf16 += skip;
  if (part.q != nullptr) part.q += skip, part.scale += skip / 32, part.sum += skip / 32;
  return part;
}

struct Product {
  LinearGpu& gpu;
  std::unique_ptr<CudaWeight> weight;
  Buffer bias, out;

  Product(LinearGpu& on, const Matrix& w, int32_t max_rows) : gpu(on), weight(make_cuda_weight(on.context, on.stream, w.spec)) {
    std::mt19937 rng(3);
    bias = to_device(gpu.context, random_floats(rng, static_cast<size_t>(w.rows)));
    out = gpu.context.allocate(static_cast<size_t>(max_rows) * static_cast<size_t>(w.rows) * 4);
  }
  std::vector<float> operator()(const Activation& x, bool simple = false) {
    check(cudaMemsetAsync(out.data(), 0xff, out.bytes(), gpu.context.stream()), "poison");
    if (simple) linear_simple(gpu.context, *weight, x, bias.as<float>(), out.as<float>());
    else linear(gpu.context, gpu.scratch, *weight, x, bias.as<float>(), out.as<float>());
    return to_host<float>(gpu.context, out, static_cast<size_t>(x.rows) * static_cast<size_t>(weight->rows()));
  }
};

int64_t different_bits(const float* a, const float* b, size_t count) {
  int64_t different = 0;
  for (size_t i = 0; i < count; ++i) different += std::memcmp(a + i, b + i, 4) != 0;
  return different;
}

}  // namespace

TEST_CASE("cuda exact: a product's row has the same bits in every batch", "[cuda][exact]") {
  LinearGpu gpu(GENERATE(slipstream::test::feature_arch(), 80), true);
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  const int64_t block = dtype_info(dtype).block_elements;
  std::vector<int64_t> widths = {256, 1536, 4096, 5376};  // 1, 6 (12), 16 (32) and 21 (42) stages of K
  if (block <= 32) widths.insert(widths.end(), {32, 96, 1184});
  if (block == 1) widths.push_back(37);  // the simple kernel
  constexpr int32_t kMost = 200;
  for (const int64_t cols : widths) {
    const int64_t rows = cols == 4096 ? 300 : 77;
    const Matrix w = matrix(dtype, rows, cols, static_cast<uint32_t>(cols));
    std::mt19937 rng(11);
    const DeviceRows x(gpu.context, random_floats(rng, static_cast<size_t>(kMost * cols)), kMost, cols, wanted_forms(dtype));
    Product product(gpu, w, kMost);
    const auto n = static_cast<size_t>(rows);
    std::vector<float> alone(kMost * n);
    for (int32_t r = 0; r < kMost; ++r) {
      const std::vector<float> one = product(rows_of(x.x, r, 1));
      std::copy(one.begin(), one.end(), alone.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(r) * n));
    }
    // right at all, by the slow twin
    const std::vector<float> simple = product(rows_of(x.x, 0, 9), true);
    double norm = 0, error = 0;
    for (size_t i = 0; i < simple.size(); ++i) norm += double{simple[i]} * simple[i], error += (double{simple[i]} - alone[i]) * (double{simple[i]} - alone[i]);
    INFO("arch " << gpu.context.arch() << ' ' << dtype_info(dtype).name << " K " << cols);
    CHECK(error <= 1e-9 * norm);
    for (const int32_t m : {2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 129, 200}) {
      const int32_t first = m % 5 <= kMost - m ? m % 5 : 0;
      const std::vector<float> batch = product(rows_of(x.x, first, m));
      INFO("M " << m << " from row " << first);
      CHECK(different_bits(batch.data(), alone.data() + static_cast<size_t>(first) * n, batch.size()) == 0);
    }
  }
}

TEST_CASE("cuda exact: a weight that is taken in slices, too", "[cuda][exact]") {
  LinearGpu gpu(slipstream::test::feature_arch(), true);
  for (const DType dtype : {DType::kBF16, DType::kQ8_0}) {
    const Matrix w = matrix(dtype, 2200, 4096, 5);  // 18 MB of BF16
    std::mt19937 rng(11);
    const DeviceRows x(gpu.context, random_floats(rng, 150 * 4096), 150, 4096, wanted_forms(dtype));
    Product product(gpu, w, 150);
    const std::vector<float> batch = product(x.x);
    for (const int32_t row : {0, 1, 63, 64, 149}) {
      INFO(dtype_info(dtype).name << " row " << row);
      const std::vector<float> alone = product(rows_of(x.x, row, 1));
      CHECK(different_bits(batch.data() + static_cast<size_t>(row) * 2200, alone.data(), 2200) == 0);
    }
  }
}

TEST_CASE("cuda exact: without it, the bits do move with the batch", "[cuda][exact]") {
  // What the test above would see if the sums were cut by the number of rows.
  LinearGpu gpu;
  for (const DType dtype : {DType::kBF16, DType::kQ4_K}) {
    const Matrix w = matrix(dtype, 300, 4096, 5);
    std::mt19937 rng(11);
    const DeviceRows x(gpu.context, random_floats(rng, 64 * 4096), 64, 4096, wanted_forms(dtype));
    Product product(gpu, w, 64);
    const std::vector<float> alone = product(rows_of(x.x, 0, 1)), batch = product(x.x);
    CHECK(different_bits(batch.data(), alone.data(), 300) > 0);
  }
}
