// linear and the row-parallel ops: each backend against a double-precision product, and bit equality over everything
// that the kernel law says does not matter.
#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

struct Exact {
  std::vector<double> value, magnitude;  // [rows, n]: sum of w x and of |w x|
};

Exact exact_product(const Matrix& w, const std::vector<float>& x, int32_t rows) {
  Exact e;
  e.value.resize(static_cast<size_t>(rows * w.rows));
  e.magnitude.resize(e.value.size());
  for (int64_t n = 0; n < w.rows; ++n) {
    const std::vector<float> row = w.row(n);
    for (int32_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < w.cols; ++k) {
        const double term = double{row[static_cast<size_t>(k)]} * x[static_cast<size_t>(r * w.cols + k)];
        e.value[static_cast<size_t>(r * w.rows + n)] += term;
        e.magnitude[static_cast<size_t>(r * w.rows + n)] += std::fabs(term);
      }
  }
  return e;
}

std::vector<float> run_linear(Ops& ops, const Matrix& w, const std::vector<float>& x, int32_t rows,
                              const float* bias = nullptr) {
  auto weight = ops.prepare_weight(w.spec);
  Activation act = ops.make_activation(rows, w.cols, ops.activation_forms(*weight));
  fill_activation(ops, &act, x, rows);
  std::vector<float> out(static_cast<size_t>(rows * w.rows), 1e30f);
  ops.linear(*weight, act, bias, out.data());
  return out;
}

std::vector<float> rounded_to_int8(const std::vector<float>& x, int32_t rows, int64_t cols) {
  auto ops = cpu(1, "scalar");
  Activation act = ops->make_activation(rows, cols, kActInt8Block32);
  fill_activation(*ops, &act, x, rows);
  return dequantised(act);
}

bool quantised(DType dtype) { return dtype_info(dtype).block_elements > 1; }

}  // namespace

TEST_CASE("linear equals the exact product of the rounded activations", "[linear]") {
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  const int64_t block = dtype_info(dtype).block_elements;
  struct Shape {
    int64_t cols, rows;
    int32_t m;
  };
  std::vector<Shape> shapes = {{std::max<int64_t>(block, 32), 1, 1}, {2 * std::max<int64_t>(block, 32), 21, 3}, {1536, 40, 33}};
  if (block <= 32) shapes.push_back({576, 72, 5});
  if (block == 1) shapes.push_back({37, 9, 2});
  for (const std::string& isa : instruction_sets())
    for (const Shape& s : shapes) {
      INFO(dtype_info(dtype).name << " " << isa << " K " << s.cols << " N " << s.rows << " M " << s.m);
      const Matrix w = matrix(dtype, s.rows, s.cols, 7);
      std::mt19937 rng(11);
      const auto x = random_floats(rng, static_cast<size_t>(s.m * s.cols));
      const auto seen = quantised(dtype) ? rounded_to_int8(x, s.m, s.cols) : x;
      const Exact exact = exact_product(w, seen, s.m);
      const auto bias = random_floats(rng, static_cast<size_t>(s.rows));
      auto ops = cpu(2, isa);
      const auto out = run_linear(*ops, w, x, s.m, bias.data());
      double worst = 0;
      for (size_t i = 0; i < out.size(); ++i) {
        // one rounding per fma of a chain of at most K steps, and the bias
        const double bound = 6e-8 * (static_cast<double>(s.cols) / (quantised(dtype) ? 4 : 1) + 8) *
                             (exact.magnitude[i] + std::fabs(bias[i % bias.size()]));
        worst = std::max(worst, std::fabs(out[i] - exact.value[i] - bias[i % bias.size()]) / (bound + 1e-30));
      }
      CHECK(worst <= 1.0);
    }
}

TEST_CASE("the reference equals the exact product", "[linear]") {
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  const int64_t cols = 512;
  const Matrix w = matrix(dtype, 19, cols, 3);
  std::mt19937 rng(5);
  const auto x = random_floats(rng, static_cast<size_t>(4 * cols));
  auto ops = make_reference_ops();
  const auto out = run_linear(*ops, w, x, 4);
  const Exact exact = exact_product(w, x, 4);
  for (size_t i = 0; i < out.size(); ++i) REQUIRE(std::fabs(out[i] - exact.value[i]) <= 6e-8 * cols * exact.magnitude[i]);
}

TEST_CASE("int8 activations stay within their rounding of the reference", "[linear]") {
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  const int64_t cols = 1024;
  const int32_t m = 2;
  const Matrix w = matrix(dtype, 24, cols, 9);
  std::mt19937 rng(21);
  const auto x = random_floats(rng, static_cast<size_t>(m * cols));
  auto reference = make_reference_ops();
  auto ops = cpu(2);
  const auto want = run_linear(*reference, w, x, m);
  const auto got = run_linear(*ops, w, x, m);
  for (int64_t n = 0; n < w.rows; ++n) {
    const auto row = w.row(n);
    for (int32_t r = 0; r < m; ++r) {
      double bound = 0;  // half a step of each block, times the weights it meets
      for (int64_t b = 0; b < cols / 32; ++b) {
        double amax = 0, weights = 0;
        for (int64_t k = b * 32; k < b * 32 + 32; ++k) {
          amax = std::max(amax, std::fabs(double{x[static_cast<size_t>(r * cols + k)]}));
          weights += std::fabs(double{row[static_cast<size_t>(k)]});
        }
        bound += amax / 254 * weights * 1.001;
      }
      const size_t i = static_cast<size_t>(r * w.rows + n);
      REQUIRE(std::fabs(got[i] - want[i]) <= bound);
    }
  }
}

TEST_CASE("a row's bits do not depend on batch, threads or instruction set", "[linear][exact]") {
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  const int64_t cols = 1792;  // more than one panel
  const int32_t m = 70;       // more than one row block
  const Matrix w = matrix(dtype, 35, cols, 13);
  std::mt19937 rng(17);
  const auto x = random_floats(rng, static_cast<size_t>(m * cols));
  auto first = cpu(1, "scalar");
  const auto want = run_linear(*first, w, x, m);
  for (const std::string& isa : instruction_sets())
    for (const int32_t threads : {1, 2, 3}) {
      auto ops = cpu(threads, isa);
      INFO(dtype_info(dtype).name << " " << isa << " threads " << threads);
      CHECK(same_bits(run_linear(*ops, w, x, m), want));
      for (const int32_t rows : {1, 2, 3, 4, 5, 8, 33}) {
        const std::vector<float> some(x.begin(), x.begin() + rows * cols);
        const auto got = run_linear(*ops, w, some, rows);
        CHECK(same_bits(got.data(), want.data(), got.size()));
      }
    }
}

TEST_CASE("stacked parts of different formats equal the parts alone", "[linear][exact]") {
  Matrix all;
  const std::vector<DType> formats = {DType::kQ4_1, DType::kQ8_0, DType::kF32, DType::kQ6_K, DType::kF8E4M3, DType::kQ4_0};
  const std::vector<int64_t> rows = {24, 9, 16, 40, 21, 3};
  for (size_t i = 0; i < formats.size(); ++i) all.add(formats[i], rows[i], 512, static_cast<uint32_t>(i));
  std::mt19937 rng(2);
  const int32_t m = 6;
  const auto x = random_floats(rng, static_cast<size_t>(m * 512));
  auto ops = cpu(2);
  const auto out = run_linear(*ops, all, x, m);
  int64_t first = 0;
  for (size_t i = 0; i < formats.size(); ++i) {
    const auto part = run_linear(*ops, matrix(formats[i], rows[i], 512, static_cast<uint32_t>(i)), x, m);
    for (int32_t r = 0; r < m; ++r)
      CHECK(same_bits(out.data() + r * all.rows + first, part.data() + r * rows[i], static_cast<size_t>(rows[i])));
    first += rows[i];
  }
}

TEST_CASE("row-parallel partials of any split compose to the fused op", "[linear][exact]") {
  const DType dtype = GENERATE(DType::kF32, DType::kBF16, DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kF8E4M3);
  const int32_t shards = 6;
  const int64_t cols = 1536;
  const int32_t m = GENERATE(1, 5);
  Matrix w = matrix(dtype, 43, cols, 23);
  w.spec.role = WeightRole::kRowLinear;
  w.spec.virtual_shards = w.spec.local_shards = shards;
  std::mt19937 rng(29);
  const auto x = random_floats(rng, static_cast<size_t>(m * cols));
  const auto residual = random_floats(rng, static_cast<size_t>(m * w.rows));
  const auto bias = random_floats(rng, static_cast<size_t>(w.rows));
  const auto norm = random_floats(rng, static_cast<size_t>(w.rows));
  auto ops = cpu(2);
  auto fused = residual;
  Activation fused_out = ops->make_activation(m, w.rows, kActF32);
  {
    auto weight = ops->prepare_weight(w.spec);
    Activation act = ops->make_activation(m, cols, ops->activation_forms(*weight));
    fill_activation(*ops, &act, x, m);
    ops->row_linear_add_norm(*weight, act, bias.data(), fused.data(), norm.data(), 1e-5f, &fused_out);
  }
  for (const int32_t ranks : {1, 2, 3, 6}) {
    std::vector<float> partials(static_cast<size_t>(shards * m * w.rows));
    const int64_t width = cols / ranks;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      WeightSpec slice = column_slice(w.spec, rank * width, width);
      slice.local_shards = shards / ranks;
      slice.first_shard = rank * slice.local_shards;
      auto weight = ops->prepare_weight(slice);
      Activation act = ops->make_activation(m, width, ops->activation_forms(*weight));
      std::vector<float> mine;
      for (int32_t r = 0; r < m; ++r)
        mine.insert(mine.end(), x.begin() + r * cols + rank * width, x.begin() + r * cols + (rank + 1) * width);
      fill_activation(*ops, &act, mine, m);
      ops->row_linear_partials(*weight, act, partials.data() + int64_t{slice.first_shard} * m * w.rows);
    }
    auto composed = residual;
    Activation out = ops->make_activation(m, w.rows, kActF32);
    ops->reduce_add_norm(partials.data(), shards, m, bias.data(), composed.data(), w.rows, norm.data(), 1e-5f, &out);
    INFO(dtype_info(dtype).name << " ranks " << ranks << " M " << m);
    CHECK(same_bits(composed, fused));
    CHECK(same_bits(out.f32, fused_out.f32, static_cast<size_t>(m * w.rows)));
  }
}

TEST_CASE("non-finite activations reach every output of their row", "[linear]") {
  const DType dtype = GENERATE(DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ6_K, DType::kF32, DType::kF8E4M3);
  const float bad = GENERATE(INFINITY, NAN);
  const Matrix w = matrix(dtype, 16, 256, 1);
  for (const std::string& isa : instruction_sets()) {
    auto ops = cpu(1, isa);
    auto weight = ops->prepare_weight(w.spec);
    Activation act = ops->make_activation(2, 256, ops->activation_forms(*weight));
    std::vector<float> x(512, 0.5f), ones(256, 1.0f), out(32);
    x[100] = bad;
    ops->rms_norm(x.data(), 2, ones.data(), 1e-5f, &act);
    ops->linear(*weight, act, nullptr, out.data());
    for (int i = 0; i < 16; ++i) {
      CHECK(!std::isfinite(out[static_cast<size_t>(i)]));
      CHECK(std::isfinite(out[static_cast<size_t>(16 + i)]));
    }
  }
}

TEST_CASE("a shape that cannot be cut is refused with its numbers", "[linear]") {
  Matrix w = matrix(DType::kQ4_K, 8, 512, 1);
  w.spec.role = WeightRole::kRowLinear;
  w.spec.virtual_shards = w.spec.local_shards = 4;
  const std::string reason = cpu(1)->unsupported_reason(w.spec);
  CHECK(reason.find("'w1'") != std::string::npos);
  CHECK(reason.find("512") != std::string::npos);
  CHECK(reason.find("256") != std::string::npos);
  w.spec.virtual_shards = w.spec.local_shards = 2;
  CHECK(cpu(1)->unsupported_reason(w.spec).empty());
}
