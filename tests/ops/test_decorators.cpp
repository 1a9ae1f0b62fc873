// The decorators: what CheckedOps finds and lets pass, what FaultyOps breaks, what CountingOps counts.
#include "kernels/checked_ops.h"
#include "kernels/ops_decorators.h"
#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

/// One layer's worth of ops with a Q4_1 weight and a row-parallel Q8_0 one.
struct Layer {
  Matrix up, down;
  std::unique_ptr<Weight> up_weight, down_weight;
  Activation normed, ffn;
  std::vector<float> x, ones, gate_up, residual;

  explicit Layer(Ops& ops, int32_t rows = 3) : up(matrix(DType::kQ4_1, 256, 96, 1)), down(matrix(DType::kQ8_0, 96, 128, 2)) {
    down.spec.role = WeightRole::kRowLinear;
    down.spec.virtual_shards = down.spec.local_shards = 4;
    up_weight = ops.prepare_weight(up.spec);
    down_weight = ops.prepare_weight(down.spec);
    normed = ops.make_activation(rows, 96, ops.activation_forms(*up_weight));
    ffn = ops.make_activation(rows, 128, ops.activation_forms(*down_weight));
    std::mt19937 rng(4);
    x = random_floats(rng, static_cast<size_t>(rows * 96));
    residual = x;
    ones.assign(96, 1.0f);
    gate_up.resize(static_cast<size_t>(rows * 256));
    ops.warm_up(rows);
  }
  void run(Ops& ops, int32_t rows = 3) {
    ops.rms_norm(x.data(), rows, ones.data(), 1e-5f, &normed);
    ops.linear(*up_weight, normed, nullptr, gate_up.data());
    ops.swiglu(gate_up.data(), rows, &ffn);
    ops.row_linear_add_norm(*down_weight, ffn, nullptr, residual.data(), ones.data(), 1e-5f, &normed);
  }
};

/// A backend whose linear has one wrong output in one row.
class WrongLinear final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void linear(const Weight& w, const Activation& x, const float* bias, float* out) override {
    inner().linear(w, x, bias, out);
    for (int64_t n = 0; n < 8; ++n) out[w.rows() + n] = -out[w.rows() + n];  // a sign in the second row
  }
};

}  // namespace

TEST_CASE("CheckedOps accepts the CPU backend and counts its comparisons", "[decorators]") {
  for (const std::string& isa : instruction_sets()) {
    auto inner = cpu(2, isa);
    CheckedOps ops(*inner);
    Layer layer(ops);
    layer.run(ops);
    for (const CheckFailure& f : ops.failures()) UNSCOPED_INFO(f.text());
    CHECK(ops.failures().empty());
    CHECK(ops.comparisons() == 3 * 8);  // rows of each family below
    REQUIRE(ops.tallies().size() == 8);
    for (const char* family : {"rms_norm", "rms_norm, int8 form", "linear Q4_1", "swiglu", "swiglu, int8 form",
                               "row_linear_add_norm Q8_0", "row_linear_add_norm", "row_linear_add_norm, norm, int8 form"}) {
      INFO(family);
      CHECK(ops.tallies().at(family).cases == 3);
      CHECK(ops.tallies().at(family).failed == 0);
      CHECK(ops.tallies().at(family).bound > 0);
    }
  }
}

TEST_CASE("CheckedOps names the op and row that is wrong", "[decorators]") {
  auto backend = cpu(1);
  WrongLinear wrong(*backend);
  CheckedOps ops(wrong);
  Layer layer(ops);
  layer.run(ops);
  REQUIRE(ops.failures().size() == 1);
  CHECK(ops.failures()[0].row == 1);
  CHECK(ops.failures()[0].column == 0);
  CHECK(std::fabs(ops.failures()[0].got + ops.failures()[0].want) < 1e-5);
  CHECK(ops.failures()[0].text().find("linear 'w1' (Q4_1): row 1") == 0);
}

TEST_CASE("FaultyOps throws or writes NaN at the chosen call only", "[decorators]") {
  auto backend = cpu(1);
  {
    FaultyOps ops(*backend, {{1, FaultKind::kDeviceError}});
    Layer layer(ops);
    REQUIRE_THROWS_AS(layer.run(ops), DeviceError);
    CHECK(ops.calls() == 2);
    layer.run(ops);  // later calls work
  }
  FaultyOps ops(*backend, {{1, FaultKind::kNan}});
  Layer layer(ops);
  layer.run(ops);
  CHECK(std::isnan(layer.gate_up[0]));
  // the NaN stays in its row and reaches the residual
  CHECK(std::isnan(layer.residual[0]));
  CHECK(std::isfinite(layer.residual[96]));
}

TEST_CASE("CountingOps counts by name, and a warm step allocates nothing", "[decorators]") {
  auto backend = cpu(2);
  CountingOps ops(*backend);
  Layer layer(ops);
  layer.run(ops);
  layer.run(ops);
  CHECK(ops.counts().at("linear") == 2);
  CHECK(ops.counts().at("row_linear_add_norm") == 2);
  CHECK(ops.total() == 8);
  CHECK(ops.allocations_after_warm_up() == 0);
  ops.check_no_allocations();
  ops.allocate(64);
  CHECK(ops.allocations_after_warm_up() == 1);
}
