// A layer's composites on the CUDA backend for few rows (finished by the products), some (one launch an op) and many (BF16 rows
// from cuBLASLt), against the reference backend and against the backend's own primitives.
#include <cmath>
#include <random>

#include "kernels/cuda/cuda_ops.h"
#include "tests/catch.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

constexpr int64_t kHidden = 256, kFfn = 512;
constexpr int32_t kHeads = 4, kKvHeads = 1, kHeadDim = 64, kBlockTokens = 32, kMaxRows = 256;
constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;

/// Relative root-mean-square difference.
double difference(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]), size += double{want[i]} * want[i];
  return std::isfinite(error) ? std::sqrt(error / (size + 1e-30)) : INFINITY;
}

/// One layer's weights on one backend, and a step of `rows` rows of two sequences.
struct Layer {
  Ops& ops;
  std::unique_ptr<Weight> qkv, o, gate_up, down, head;
  std::vector<Buffer> buffers;
  Activation hidden, attention, ffn;
  float *residual = nullptr, *q = nullptr, *scratch = nullptr, *logits = nullptr;
  KvLayer kv;

  Layer(Ops& backend, DType dtype) : ops(backend) {
    const auto prepare = [&](int64_t rows, int64_t cols, uint32_t seed, WeightRole role) {
      WeightSpec spec;
      matrices.push_back(std::make_unique<Matrix>(matrix(dtype, rows, cols, seed)));
      spec = matrices.back()->spec;
      spec.role = role;
      return ops.prepare_weight(spec);
    };
    qkv = prepare(kQkv, kHidden, 1, WeightRole::kLinear);
    o = prepare(kHidden, kHeads * kHeadDim, 2, WeightRole::kRowLinear);
    gate_up = prepare(2 * kFfn, kHidden, 3, WeightRole::kLinear);
    down = prepare(kHidden, kFfn, 4, WeightRole::kRowLinear);
    head = prepare(199, kHidden, 5, WeightRole::kLinear);
    hidden = ops.make_activation(kMaxRows, kHidden, static_cast<uint8_t>(ops.activation_forms(*qkv)));
    attention = ops.make_activation(kMaxRows, kHeads * kHeadDim, ops.activation_forms(*o));
    ffn = ops.make_activation(kMaxRows, kFfn, ops.activation_forms(*down));
    residual = floats(kMaxRows * kHidden), q = floats(kMaxRows * kQkv), scratch = floats(kMaxRows * 2 * kFfn), logits = floats(kMaxRows * 199);
    const int32_t blocks = 2 * (kMaxRows / kBlockTokens + 4);
    const size_t bytes = static_cast<size_t>(blocks * kKvHeads * kBlockTokens * kHeadDim) * 2;
    for (void** base : {&kv.k, &kv.v}) buffers.push_back(ops.allocate(bytes)), *base = buffers.back().data();
    kv.kv_heads = kKvHeads, kv.head_dim = kHeadDim, kv.block_tokens = kBlockTokens, kv.blocks = blocks;
    ops.plan_attention(kMaxRows, kHeads, kKvHeads, kHeadDim);
  }
  float* floats(int64_t count) {
    buffers.push_back(ops.allocate(static_cast<size_t>(count) * sizeof(float)));
    return buffers.back().as<float>();
  }
  float* put(const std::vector<float>& host) {
    float* to = floats(static_cast<int64_t>(host.size()));
    ops.upload(to, host.data(), host.size() * sizeof(float));
    return to;
  }
  std::vector<float> get(const float* from, int64_t count) {
    std::vector<float> host(static_cast<size_t>(count));
    ops.download(host.data(), from, host.size() * sizeof(float));
    return host;
  }

 private:
  std::vector<std::unique_ptr<Matrix>> matrices;
};

struct Outputs {
  std::vector<float> residual, logits;
};

/// A whole layer and a head; `composed`: by the default compositions of primitives.
Outputs run(Layer& layer, int32_t rows, bool composed) {
  std::mt19937 rng(static_cast<uint32_t>(rows));
  Ops& ops = layer.ops;
  const auto x = random_floats(rng, static_cast<size_t>(rows * kHidden));
  const auto norms = random_floats(rng, static_cast<size_t>(4 * kHidden)), biases = random_floats(rng, 4096, 0.1f);
  std::vector<float> inv_freq;
  for (int i = 0; i < kHeadDim / 2; ++i) inv_freq.push_back(std::pow(1e4f, -2.0f * static_cast<float>(i) / kHeadDim));
  const float* norm = layer.put(norms);
  const float* bias = layer.put(biases);
  ops.upload(layer.residual, x.data(), x.size() * sizeof(float));
  // two sequences from positions 3 and 40, with scattered blocks
  const int32_t first = rows > 1 ? rows / 3 + 1 : 1;
  std::vector<int32_t> tables[2], positions, ids(static_cast<size_t>(rows), 0);
  for (int32_t b = 0; b < layer.kv.blocks / 2; ++b) tables[0].push_back(2 * b + 1), tables[1].push_back(2 * b);
  const int32_t* columns[2] = {tables[0].data(), tables[1].data()};
  std::vector<SpanRows> spans = {{0, first, 0, &columns[0], layer.kv.blocks / 2}};
  if (rows > first) spans.push_back({first, rows - first, 0, &columns[1], layer.kv.blocks / 2});
  for (const SpanRows& span : spans)
    for (int32_t r = 0; r < span.rows; ++r) positions.push_back(r);
  StepInputs step;
  step.rows = rows, step.token_ids = ids.data(), step.positions = positions.data(), step.spans = spans;
  ops.begin_step(&step);

  QkvParams p;
  p.step = &step, p.qkv = layer.q, p.heads = kHeads, p.kv_heads = kKvHeads, p.head_dim = kHeadDim;
  p.q_norm = norm, p.k_norm = norm + kHeadDim, p.norm_eps = 1e-6f;
  p.rope = {RopeStyle::kHalfSplit, kHeadDim, layer.put(inv_freq), 1.0f}, p.kv = layer.kv;
  AttentionParams a;
  a.step = &step, a.q = layer.q, a.q_stride = kQkv, a.heads = kHeads, a.kv_heads = kKvHeads, a.head_dim = kHeadDim;
  a.scale = 0.125f, a.kv = layer.kv, a.out = &layer.attention;
  ops.rms_norm(layer.residual, rows, norm + kHidden, 1e-6f, &layer.hidden);
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second layer's q|k|v takes the first one's norm
    if (composed) {
      ops.Ops::linear_qkv(*layer.qkv, layer.hidden, bias, p);
      ops.attention(a);
      ops.Ops::row_linear_add_norm(*layer.o, layer.attention, bias + 1024, layer.residual, norm + 2 * kHidden, 1e-6f, &layer.hidden);
      ops.Ops::linear_swiglu(*layer.gate_up, layer.hidden, bias + 512, layer.scratch, &layer.ffn);
      ops.Ops::row_linear_add_norm(*layer.down, layer.ffn, nullptr, layer.residual, norm + 3 * kHidden, 1e-6f, &layer.hidden);
    } else {
      ops.linear_qkv(*layer.qkv, layer.hidden, bias, p);
      ops.attention(a);
      ops.row_linear_add_norm(*layer.o, layer.attention, bias + 1024, layer.residual, norm + 2 * kHidden, 1e-6f, &layer.hidden);
      ops.linear_swiglu(*layer.gate_up, layer.hidden, bias + 512, layer.scratch, &layer.ffn);
      ops.row_linear_add_norm(*layer.down, layer.ffn, nullptr, layer.residual, norm + 3 * kHidden, 1e-6f, &layer.hidden);
    }
    CHECK(layer.hidden.rows == rows);
  }
  ops.linear(*layer.head, layer.hidden, nullptr, layer.logits);
  if (!composed) ops.row_linear_add_norm(*layer.down, layer.ffn, nullptr, layer.residual, nullptr, 0, nullptr);
  else ops.Ops::row_linear_add_norm(*layer.down, layer.ffn, nullptr, layer.residual, nullptr, 0, nullptr);
  return {layer.get(layer.residual, rows * kHidden), layer.get(layer.logits, rows * 199)};
}

}  // namespace

TEST_CASE("cuda composites equal the reference and their own primitives for few, some and many rows", "[cuda][fused]") {
  const DType dtype = GENERATE(DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kQ8_0, DType::kF32);
  const auto device = make_cuda_ops({});
  const auto reference = make_reference_ops();
  REQUIRE(device != nullptr);
  Layer fast(*device, dtype), slow(*reference, dtype);
  device->warm_up(kMaxRows);
  reference->warm_up(kMaxRows);
  for (const int32_t rows : {1, 3, 11, 40, 65, 130}) {
    INFO(dtype_info(dtype).name << ", " << rows << " rows");
    const Outputs want = run(slow, rows, false), composed = run(fast, rows, true), got = run(fast, rows, false);
    // activations of 8 bits (BF16) or per 32-block (int8), a few products one after the other
    CHECK(difference(composed.residual, want.residual) < 0.03);
    CHECK(difference(got.residual, want.residual) < 0.03);
    CHECK(difference(composed.logits, want.logits) < 0.03);
    CHECK(difference(got.logits, want.logits) < 0.03);
    CHECK(difference(got.logits, composed.logits) < 0.02);
  }
}

TEST_CASE("cuda: a pending norm is finished for a weight that cannot take it", "[cuda][fused]") {
  const DType dtype = GENERATE(DType::kBF16, DType::kF8E4M3);
  const auto device = make_cuda_ops({});
  const auto reference = make_reference_ops();
  Layer fast(*device, dtype), slow(*reference, dtype);
  // FP8 whose scales change inside 128 columns is served by the simple kernel
  Matrix stacked = matrix(dtype, 64, kHidden, 11);
  stacked.add_f8(48, kHidden, 12, {64, 64});
  const auto weight = device->prepare_weight(stacked.spec), oracle = reference->prepare_weight(stacked.spec);
  device->warm_up(kMaxRows);
  std::mt19937 rng(3);
  const auto x = random_floats(rng, 5 * kFfn * 2), residual = random_floats(rng, 5 * kHidden), norm = random_floats(rng, kHidden);
  std::vector<float> outs[2];
  for (Layer* layer : {&slow, &fast}) {
    Ops& ops = layer->ops;
    ops.upload(layer->residual, residual.data(), residual.size() * sizeof(float));
    ops.swiglu(layer->put(x), 5, &layer->ffn);
    ops.row_linear_add_norm(*layer->down, layer->ffn, nullptr, layer->residual, layer->put(norm), 1e-6f, &layer->hidden);
    for (int repeat = 0; repeat < 2; ++repeat) {  // and only once
      ops.linear(layer == &fast ? *weight : *oracle, layer->hidden, nullptr, layer->logits);
      outs[layer == &fast] = layer->get(layer->logits, 5 * 112);
      CHECK((layer == &slow || difference(outs[1], outs[0]) < 0.02));  // before and after the norm is finished
    }
  }
}
