// F8_E4M3 weights: every layout of scales, slices that start inside a block, codes that are not numbers, refusals.
#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

constexpr int64_t kWhole = WeightScales::kWholeSide;

std::vector<float> product(Ops& ops, const WeightSpec& spec, const std::vector<float>& x, int32_t m) {
  auto weight = ops.prepare_weight(spec);
  Activation act = ops.make_activation(m, weight->cols(), ops.activation_forms(*weight));
  fill_activation(ops, &act, x, m);
  std::vector<float> out(static_cast<size_t>(m * weight->rows()), 1e30f);
  ops.linear(*weight, act, nullptr, out.data());
  return out;
}

std::vector<ScaleLayout> layouts() {
  return {{128, 128, DType::kBF16, 0, 0}, {128, 128, DType::kF32, 100, 72},  {1, kWhole, DType::kF32, 5, 40},
          {1, kWhole, DType::kBF16, 0, 0}, {kWhole, kWhole, DType::kF32, 3, 7}, {kWhole, 64, DType::kF16, 0, 17},
          {3, 5, DType::kF32, 1, 2},       {7, kWhole, DType::kF16, 0, 0}};
}

}  // namespace

TEST_CASE("a weight is its code times the scale of its place in the whole matrix", "[linear][f8]") {
  // By hand: 3 x 4 of a matrix cut in blocks of 2 x 3, from row 1 and column 2 on.
  const uint8_t codes[12] = {0x38, 0xb8, 0x40, 0x01,   // 1, -1, 2, 2^-9
                             0x7e, 0x00, 0x08, 0x30,   // 448, 0, 2^-6, 0.5
                             0x39, 0x3c, 0x48, 0xfe};  // 1.125, 1.5, 4, -448
  const float scales[6] = {1, 10, 100, 1000, 1e4f, 1e5f};
  WeightPart part{"w", DType::kF8E4M3, 3, 4, reinterpret_cast<const std::byte*>(codes), 4,
                  {reinterpret_cast<const std::byte*>(scales), DType::kF32, 2, 2, 3, 1, 2}};
  const float want[3][4] = {{1, -10, 20, 10 * 0x1p-9f}, {44800, 0, 1000 * 0x1p-6f, 500}, {112.5f, 1500, 4000, -448000}};
  for (int64_t r = 0; r < 3; ++r) {
    float row[4];
    dequantize_part_row(part, r, row);
    for (int i = 0; i < 4; ++i) CHECK(row[i] == want[r][i]);
  }
}

TEST_CASE("products with every layout of scales, on every backend and instruction set", "[linear][f8]") {
  for (const ScaleLayout& layout : layouts())
    for (const auto& [rows, cols, m] : {std::tuple<int64_t, int64_t, int32_t>{1, 1, 1}, {21, 300, 3}, {40, 1000, 9}, {133, 128, 5}}) {
      INFO(layout.block_rows << " x " << layout.block_cols << " from " << layout.first_row << ", " << layout.first_col << ": " << rows
                             << " x " << cols);
      Matrix w;
      w.add_f8(rows, cols, 3, layout);
      std::mt19937 rng(4);
      const auto x = random_floats(rng, static_cast<size_t>(m * cols));
      std::vector<float> exact(static_cast<size_t>(m * rows)), bound(exact.size());
      for (int64_t n = 0; n < rows; ++n) {
        const auto row = w.row(n);
        for (int32_t r = 0; r < m; ++r) {
          double sum = 0, magnitude = 0;
          for (int64_t k = 0; k < cols; ++k) {
            const double term = double{row[static_cast<size_t>(k)]} * x[static_cast<size_t>(r * cols + k)];
            sum += term, magnitude += std::fabs(term);
          }
          exact[static_cast<size_t>(r * rows + n)] = static_cast<float>(sum);
          bound[static_cast<size_t>(r * rows + n)] = static_cast<float>(6e-8 * static_cast<double>(cols + 8) * magnitude);
        }
      }
      auto scalar = cpu(1, "scalar");
      const auto first = product(*scalar, w.spec, x, m);
      auto reference = make_reference_ops();
      const auto oracle = product(*reference, w.spec, x, m);
      for (size_t i = 0; i < exact.size(); ++i) {
        REQUIRE(std::fabs(first[i] - exact[i]) <= bound[i]);
        REQUIRE(std::fabs(oracle[i] - exact[i]) <= bound[i]);
      }
      for (const std::string& isa : instruction_sets()) {
        auto ops = cpu(2, isa);
        INFO(isa);
        CHECK(same_bits(product(*ops, w.spec, x, m), first));
      }
    }
}

TEST_CASE("column slices that start inside a block compose to the whole, bit for bit", "[linear][f8][exact]") {
  const int32_t shards = 4, m = 3;
  const int64_t cols = 640;  // shards of 160: no boundary but the middle one is a multiple of 128
  Matrix w;
  w.add_f8(29, cols, 23, {});
  w.spec.role = WeightRole::kRowLinear;
  w.spec.virtual_shards = w.spec.local_shards = shards;
  std::mt19937 rng(29);
  const auto x = random_floats(rng, static_cast<size_t>(m * cols));
  for (const std::string backend : {"cpu", "reference"}) {
    const auto partials = [&](const WeightSpec& spec, const std::vector<float>& values) {
      auto ops = backend == "cpu" ? cpu(2) : make_reference_ops();
      auto weight = ops->prepare_weight(spec);
      Activation act = ops->make_activation(m, weight->cols(), ops->activation_forms(*weight));
      fill_activation(*ops, &act, values, m);
      std::vector<float> out(static_cast<size_t>(spec.local_shards * m * w.rows));
      ops->row_linear_partials(*weight, act, out.data());
      return out;
    };
    const auto whole = partials(w.spec, x);
    for (const int32_t ranks : {2, 4}) {
      std::vector<float> composed;
      const int64_t width = cols / ranks;
      for (int32_t rank = 0; rank < ranks; ++rank) {
        WeightSpec slice = column_slice(w.spec, rank * width, width);
        slice.local_shards = shards / ranks;
        slice.first_shard = rank * slice.local_shards;
        std::vector<float> mine;
        for (int32_t r = 0; r < m; ++r)
          mine.insert(mine.end(), x.begin() + r * cols + rank * width, x.begin() + r * cols + (rank + 1) * width);
        const auto part = partials(slice, mine);
        composed.insert(composed.end(), part.begin(), part.end());
      }
      INFO(backend << " on " << ranks << " ranks");
      CHECK(same_bits(composed, whole));
    }
  }
}

TEST_CASE("a code that is not a number reaches its own row and no other", "[linear][f8]") {
  for (const uint8_t code : {uint8_t{0x7f}, uint8_t{0xff}})
    for (const std::string& isa : instruction_sets()) {
      Matrix w = matrix(DType::kF8E4M3, 20, 64, 1);
      w.bytes[0][static_cast<size_t>(11 * 64 + 5)] = static_cast<std::byte>(code);
      auto ops = cpu(1, isa);
      auto reference = make_reference_ops();
      const std::vector<float> x(64, 0.5f);
      for (const auto& out : {product(*ops, w.spec, x, 1), product(*reference, w.spec, x, 1)})
        for (size_t n = 0; n < 20; ++n) CHECK(std::isnan(out[n]) == (n == 11));
    }
}

TEST_CASE("FP8 embeddings and codes without scales are refused by name", "[linear][f8]") {
  for (const std::string backend : {"cpu", "reference"}) {
    auto ops = backend == "cpu" ? cpu(1) : make_reference_ops();
    Matrix w = matrix(DType::kF8E4M3, 8, 64, 1);
    CHECK(ops->unsupported_reason(w.spec).empty());
    w.spec.role = WeightRole::kEmbeddingHead;
    CHECK(ops->unsupported_reason(w.spec) ==
          "tensor 'w1' (F8_E4M3): an embedding is served in F32, F16, BF16 or a block format, not in FP8");
    w.spec.role = WeightRole::kLinear;
    w.spec.parts[0].scales.data = nullptr;
    CHECK(ops->unsupported_reason(w.spec) == "tensor 'w1' (F8_E4M3): codes without scales");
  }
}
