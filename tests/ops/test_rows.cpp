// Row-wise ops: embed, norms, SwiGLU, rotary embedding and cache writes, each backend against plain double arithmetic.
#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

TEST_CASE("embed gives the dequantised row, bit for bit", "[embed]") {
  const DType dtype = GENERATE(from_range(all_weight_formats()));
  if (dtype == DType::kF8E4M3) return;  // refused: see test_linear_f8.cpp
  Matrix w = matrix(dtype, 37, 512, 31);
  w.spec.role = GENERATE(WeightRole::kEmbedding, WeightRole::kEmbeddingHead);
  const std::vector<int32_t> ids = {0, 36, 7, 8, 15, 16, 35, 7};
  for (const std::string backend : {"cpu", "reference"}) {
    auto ops = backend == "cpu" ? cpu(2) : make_reference_ops();
    auto weight = ops->prepare_weight(w.spec);
    std::vector<float> out(ids.size() * 512);
    StepInputs step;
    step.rows = static_cast<int32_t>(ids.size()), step.token_ids = ids.data();
    ops->embed(*weight, step, 1.0f, out.data());
    for (size_t i = 0; i < ids.size(); ++i) CHECK(same_bits(out.data() + i * 512, w.row(ids[i]).data(), 512));
    step.rows = 1, step.token_ids = ids.data() + 1;
    ops->embed(*weight, step, 2.5f, out.data());
    for (size_t k = 0; k < 512; ++k) CHECK(out[k] == 2.5f * w.row(36)[k]);
  }
}

TEST_CASE("rms_norm and its int8 form", "[norm]") {
  const int64_t cols = GENERATE(32, 37, 64, 576, 1000, 1536);
  std::mt19937 rng(3);
  const int32_t rows = 5;
  const auto x = random_floats(rng, static_cast<size_t>(rows * cols), 3.0f);
  const auto weight = random_floats(rng, static_cast<size_t>(cols));
  const uint8_t forms = cols % 32 == 0 ? kActF32 | kActInt8Block32 : kActF32;
  std::vector<float> scalar;
  for (const std::string& isa : instruction_sets()) {
    auto ops = cpu(2, isa);
    Activation out = ops->make_activation(rows, cols, forms);
    ops->rms_norm(x.data(), rows, weight.data(), 1e-5f, &out);
    REQUIRE(out.rows == rows);
    for (int32_t r = 0; r < rows; ++r) {
      double squares = 0;
      for (int64_t c = 0; c < cols; ++c) squares += std::pow(double{x[static_cast<size_t>(r * cols + c)]}, 2);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
      for (int64_t c = 0; c < cols; ++c) {
        const double want = x[static_cast<size_t>(r * cols + c)] * inverse * weight[static_cast<size_t>(c)];
        REQUIRE(out.f32[r * cols + c] == Approx(want).epsilon(1e-6).margin(1e-7));
      }
    }
    if (out.q != nullptr) {
      Activation by_hand = ops->make_activation(rows, cols, forms);
      fill_activation(*ops, &by_hand, std::vector<float>(out.f32, out.f32 + rows * cols), rows);
      CHECK(std::memcmp(out.q, by_hand.q, static_cast<size_t>(rows * cols)) == 0);
      CHECK(same_bits(out.scale, by_hand.scale, static_cast<size_t>(rows * cols / 32)));
      CHECK(std::memcmp(out.sum, by_hand.sum, static_cast<size_t>(rows * cols / 32) * 4) == 0);
    }
    const std::vector<float> mine(out.f32, out.f32 + rows * cols);
    if (scalar.empty()) scalar = mine;
    CHECK(same_bits(mine, scalar));
  }
}

TEST_CASE("store_rows gives every form of the rows themselves", "[move]") {
  constexpr int64_t kCols = 96;
  constexpr int32_t kRows = 3;
  std::mt19937 rng(5);
  const auto x = random_floats(rng, kRows * kCols, 40.0f);
  for (const std::string& isa : instruction_sets()) {
    auto ops = cpu(2, isa);
    Activation out = ops->make_activation(kRows, kCols, kActF32 | kActInt8Block32);
    ops->store_rows(x.data(), kRows, &out);
    REQUIRE(out.rows == kRows);
    CHECK(same_bits(out.f32, x.data(), x.size()));
    for (size_t b = 0; b < x.size() / 32; ++b) {
      float largest = 0;
      int32_t sum = 0;
      for (size_t i = b * 32; i < b * 32 + 32; ++i) {
        largest = std::max(largest, std::fabs(x[i]));
        CHECK(out.q[i] == static_cast<int>(std::lround(x[i] / out.scale[b])));
        sum += out.q[i];
      }
      CHECK(out.scale[b] == Approx(largest / 127));
      CHECK(out.sum[b] == sum);
    }
  }
  const auto reference = make_reference_ops();
  Activation out = reference->make_activation(kRows, kCols, kActF32);
  reference->store_rows(x.data(), 2, &out);
  CHECK(out.rows == 2);
  CHECK(same_bits(out.f32, x.data(), 2 * kCols));
}

TEST_CASE("swiglu", "[swiglu]") {
  const int64_t cols = GENERATE(32, 45, 1536);
  const int32_t rows = 3;
  std::mt19937 rng(5);
  auto gate_up = random_floats(rng, static_cast<size_t>(rows * 2 * cols), 4.0f);
  gate_up[0] = 200.0f;
  gate_up[1] = -200.0f;
  gate_up[2] = 0.0f;
  std::vector<float> scalar;
  for (const std::string& isa : instruction_sets()) {
    auto ops = cpu(2, isa);
    Activation out = ops->make_activation(rows, cols, kActF32);
    ops->swiglu(gate_up.data(), rows, &out);
    for (int32_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const double g = gate_up[static_cast<size_t>(r * 2 * cols + c)];
        const double u = gate_up[static_cast<size_t>(r * 2 * cols + cols + c)];
        REQUIRE(out.f32[r * cols + c] == Approx(g / (1 + std::exp(-g)) * u).epsilon(1e-6).margin(1e-30));
      }
    const std::vector<float> mine(out.f32, out.f32 + rows * cols);
    if (scalar.empty()) scalar = mine;
    CHECK(same_bits(mine, scalar));
  }
}

TEST_CASE("a block that is not finite poisons only itself", "[quantise]") {
  for (const std::string& isa : instruction_sets()) {
    auto ops = cpu(1, isa);
    std::vector<float> gate_up(128, 1.0f);
    gate_up[40] = NAN;
    Activation out = ops->make_activation(1, 64, kActInt8Block32);
    ops->swiglu(gate_up.data(), 1, &out);
    CHECK(std::isfinite(out.scale[0]));
    CHECK(std::isnan(out.scale[1]));
  }
}

TEST_CASE("gather_rows and copy_kv_block move whole rows and blocks", "[move]") {
  for (const bool reference : {false, true}) {
    auto ops = reference ? make_reference_ops() : cpu(2);
    std::vector<float> x(12), out(6);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    const std::vector<int32_t> ids = {3, 0};
    ops->gather_rows(x.data(), ids, 3, out.data());
    CHECK(out == std::vector<float>{9, 10, 11, 0, 1, 2});
    std::vector<uint16_t> k(2 * 2 * 32 * 4), v(k.size());
    for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<uint16_t>(i), v[i] = static_cast<uint16_t>(i + 5000);
    KvLayer kv{k.data(), v.data(), DType::kBF16, 2, 4, 32, 0};
    ops->copy_kv_block(kv, 0, 1);
    for (size_t i = 0; i < 256; ++i) {
      REQUIRE(k[256 + i] == i);
      REQUIRE(v[256 + i] == i + 5000);
    }
  }
}
