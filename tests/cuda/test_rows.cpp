// Row-wise ops of the CUDA backend, through Ops, against the reference backend on the same inputs.
#include <cmath>
#include <cstring>
#include <random>

#include "tests/catch.h"
#include "tests/cuda/feature_level.h"
#include "tests/ops/ops_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

struct Device {
  std::unique_ptr<Ops> ops = slipstream::test::gpu_ops();
  std::vector<Buffer> buffers;
  Device() { REQUIRE(ops != nullptr); }
  ~Device() { buffers.clear(); }
  template <typename T>
  T* put(const std::vector<T>& host) {
    buffers.push_back(ops->allocate(host.size() * sizeof(T)));
    ops->upload(buffers.back().data(), host.data(), host.size() * sizeof(T));
    return buffers.back().as<T>();
  }
  template <typename T>
  std::vector<T> get(const T* device, size_t count) {
    std::vector<T> host(count);
    ops->download(host.data(), device, count * sizeof(T));
    return host;
  }
};

void close(const std::vector<float>& got, const std::vector<float>& want, double bound) {
  REQUIRE(got.size() == want.size());
  double square = 0, worst = 0;
  for (const float w : want) square += double{w} * w;
  const double scale = std::sqrt(square / static_cast<double>(want.size())) + 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double{got[i]} - want[i]) / scale;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  CHECK(worst < bound);
}

/// Every form of a device activation stands for `want`.
void check_forms(Device& device, const Activation& x, const std::vector<float>& want) {
  const size_t count = want.size();
  if ((x.forms & kActF32) != 0) close(device.get(x.f32, count), want, 2e-6);
  if ((x.forms & kActBF16) != 0) {
    std::vector<float> values;
    for (const uint16_t bits : device.get(x.bf16, count)) values.push_back(bf16_to_f32(bits));
    for (size_t i = 0; i < count; ++i) CHECK(std::abs(values[i] - want[i]) <= std::abs(want[i]) * 0x1.02p-8 + 1e-6);
  }
  if ((x.forms & kActInt8Block32) != 0) {
    const auto q = device.get(x.q, count);
    const auto scale = device.get(x.scale, count / 32);
    const auto sum = device.get(x.sum, count / 32);
    for (size_t b = 0; b < count / 32; ++b) {
      float amax = 0;
      int32_t total = 0;
      for (size_t i = b * 32; i < b * 32 + 32; ++i) amax = std::fmax(amax, std::fabs(want[i])), total += q[i];
      CHECK(std::abs(scale[b] - amax / 127.0f) <= amax * 1e-6f);
      CHECK(sum[b] == total);
      for (size_t i = b * 32; i < b * 32 + 32; ++i)
        CHECK(std::abs(static_cast<float>(q[i]) * scale[b] - want[i]) <= 0.501f * scale[b] + 1e-6f * amax);
    }
  }
}

/// The definition in double, rounded once. The reference backend sums in float, in order: over 16384 columns that alone is
/// off by 1e-5.
std::vector<float> exact_norm(const std::vector<float>& x, int64_t cols, const std::vector<float>& weight, double eps) {
  std::vector<float> out(x.size());
  for (size_t row = 0; row < x.size() / static_cast<size_t>(cols); ++row) {
    double squares = 0;
    const float* in = x.data() + row * static_cast<size_t>(cols);
    for (int64_t c = 0; c < cols; ++c) squares += double{in[c]} * in[c];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
    for (int64_t c = 0; c < cols; ++c)
      out[row * static_cast<size_t>(cols) + static_cast<size_t>(c)] = static_cast<float>(in[c] * inverse * weight[static_cast<size_t>(c)]);
  }
  return out;
}

}  // namespace

TEST_CASE("cuda rows: norms and their forms", "[cuda][rows]") {
  Device device;
  const auto reference = make_reference_ops();
  std::mt19937 rng(3);
  for (const int64_t cols : {32, 64, 576, 1536, 4096, 7168, 16384})
    for (const int32_t rows : {1, 3, 37}) {
      INFO(rows << " x " << cols);
      const auto x = random_floats(rng, static_cast<size_t>(rows * cols), 3.0f);
      const auto weight = random_floats(rng, static_cast<size_t>(cols));
      Activation want = reference->make_activation(rows, cols, kActF32);
      Activation out = device.ops->make_activation(rows, cols, kActF32 | kActBF16 | kActInt8Block32);
      device.ops->rms_norm(device.put(x), rows, device.put(weight), 1e-5f, &out);
      CHECK(out.rows == rows);
      check_forms(device, out, exact_norm(x, cols, weight, 1e-5f));

      const auto partials = random_floats(rng, static_cast<size_t>(3 * rows * cols));
      const auto bias = random_floats(rng, static_cast<size_t>(cols));
      std::vector<float> residual = x;
      float* on_device = device.put(x);
      reference->reduce_add_norm(partials.data(), 3, rows, bias.data(), residual.data(), cols, weight.data(), 1e-5f, &want);
      device.ops->reduce_add_norm(device.put(partials), 3, rows, device.put(bias), on_device, cols, device.put(weight), 1e-5f, &out);
      const std::vector<float> sum = device.get(on_device, x.size());
      close(sum, residual, 1e-6);
      check_forms(device, out, exact_norm(sum, cols, weight, 1e-5f));
      device.ops->reduce_add_norm(device.put(partials), 1, rows, nullptr, on_device, cols, nullptr, 0, nullptr);
      reference->reduce_add_norm(partials.data(), 1, rows, nullptr, residual.data(), cols, nullptr, 0, nullptr);
      close(device.get(on_device, x.size()), residual, 1e-6);
      device.buffers.clear();
    }
}

TEST_CASE("cuda rows: a block that is not finite has no scale", "[cuda][rows]") {
  Device device;
  std::vector<float> x(64, 1.0f);
  const std::vector<float> ones(64, 1.0f);
  x[40] = INFINITY;
  Activation out = device.ops->make_activation(1, 64, kActF32 | kActInt8Block32);
  device.ops->reduce_add_norm(device.put(std::vector<float>(64, 0.0f)), 1, 1, nullptr, device.put(x), 64, device.put(ones), 0, &out);
  // x / inf = 0 but inf / inf is NaN: only its own block loses its scale
  const auto scale = device.get(out.scale, 2);
  CHECK(scale[0] == 0.0f);
  CHECK(std::isnan(scale[1]));
}

TEST_CASE("cuda rows: the forms of rows themselves", "[cuda][rows]") {
  Device device;
  const int64_t cols = GENERATE(32, 96, 2880);
  const uint8_t forms = GENERATE(kActF32, kActBF16, static_cast<uint8_t>(kActF32 | kActBF16 | kActInt8Block32), kActInt8Block32);
  std::mt19937 rng(6);
  const std::vector<float> x = random_floats(rng, static_cast<size_t>(5 * cols), 40.0f);
  Activation out = device.ops->make_activation(7, cols, forms);
  device.ops->store_rows(device.put(x), 5, &out);
  REQUIRE(out.rows == 5);
  check_forms(device, out, x);
}

TEST_CASE("cuda rows: swiglu", "[cuda][rows]") {
  Device device;
  const auto reference = make_reference_ops();
  std::mt19937 rng(5);
  for (const int64_t cols : {32, 96, 1536, 12288}) {
    const int32_t rows = 5;
    auto x = random_floats(rng, static_cast<size_t>(rows * cols * 2), 4.0f);
    x[0] = -200.0f, x[1] = 200.0f;
    Activation want = reference->make_activation(rows, cols, kActF32);
    reference->swiglu(x.data(), rows, &want);
    Activation out = device.ops->make_activation(rows, cols, kActF32 | kActBF16 | kActInt8Block32);
    device.ops->swiglu(device.put(x), rows, &out);
    check_forms(device, out, {want.f32, want.f32 + rows * cols});
  }
}

TEST_CASE("cuda rows: q/k norm, rope and the cache write", "[cuda][rows]") {
  Device device;
  const auto reference = make_reference_ops();
  std::mt19937 rng(7);
  for (const int32_t head_dim : {64, 96, 128, 256})
    for (const RopeStyle style : {RopeStyle::kHalfSplit, RopeStyle::kInterleaved})
      for (const bool normed : {false, true})
        for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF8E4M3}) {
          const int32_t heads = 5, kv_heads = 2, block_tokens = 32, blocks = 9, rows = 70;
          INFO("head " << head_dim << " style " << static_cast<int>(style) << " norm " << normed << ' ' << dtype_info(dtype).name);
          const int64_t width = int64_t{heads + 2 * kv_heads} * head_dim;
          auto qkv = random_floats(rng, static_cast<size_t>(rows * width));
          const auto q_norm = random_floats(rng, static_cast<size_t>(head_dim)), k_norm = random_floats(rng, static_cast<size_t>(head_dim));
          std::vector<float> inv_freq;
          const int32_t rope_dim = head_dim == 256 ? 64 : head_dim;
          for (int32_t i = 0; i < rope_dim / 2; ++i)
            inv_freq.push_back(std::pow(1e6f, -2.0f * static_cast<float>(i) / static_cast<float>(rope_dim)));
          const size_t cache_bytes = static_cast<size_t>(blocks * kv_heads * block_tokens) * static_cast<size_t>(row_bytes(dtype, head_dim));
          std::vector<std::byte> k(cache_bytes), v(cache_bytes);
          const std::vector<int32_t> first = {8, 3, 5}, second = {0, 7};
          const int32_t *columns[2] = {first.data(), second.data()};
          // 40 rows from position 50 of one sequence, 30 rows from 1 of the other
          const std::vector<SpanRows> spans = {{0, 40, 50, &columns[0], 3}, {40, 30, 1, &columns[1], 2}};
          std::vector<int32_t> positions;
          for (const SpanRows& span : spans)
            for (int32_t r = 0; r < span.rows; ++r) positions.push_back(span.context + r);
          StepInputs step;
          step.rows = rows, step.positions = positions.data(), step.spans = spans;
          QkvParams p;
          p.step = &step, p.qkv = qkv.data(), p.heads = heads, p.kv_heads = kv_heads, p.head_dim = head_dim;
          if (normed) p.q_norm = q_norm.data(), p.k_norm = k_norm.data();
          p.norm_eps = 1e-6f, p.rope = {style, rope_dim, inv_freq.data(), 1.25f};
          p.kv = {k.data(), v.data(), dtype, kv_heads, head_dim, block_tokens, 0};
          p.kv.k_scale = 0.003f, p.kv.v_scale = 0.001f;  // some values pass 448 codes

          StepInputs on_device = step;
          device.ops->begin_step(&on_device);
          QkvParams d = p;
          d.step = &on_device, d.qkv = device.put(qkv), d.rope.inv_freq = device.put(inv_freq);
          if (normed) d.q_norm = device.put(q_norm), d.k_norm = device.put(k_norm);
          d.kv.k = device.put(k), d.kv.v = device.put(v);
          device.ops->qkv_norm_rope_cache(d);
          reference->qkv_norm_rope_cache(p);

          const auto got = device.get(d.qkv, qkv.size());
          std::vector<float> got_q, want_q;
          for (int32_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < int64_t{heads} * head_dim; ++c) {
              got_q.push_back(got[static_cast<size_t>(r * width + c)]);
              want_q.push_back(qkv[static_cast<size_t>(r * width + c)]);
            }
          close(got_q, want_q, 1e-5);
          for (const auto& [device_cache, host_cache] : {std::pair{d.kv.k, &k}, std::pair{d.kv.v, &v}}) {
            const auto bytes = device.get(static_cast<std::byte*>(device_cache), cache_bytes);
            const size_t count = cache_bytes / static_cast<size_t>(row_bytes(dtype, 1));
            std::vector<float> got_cache(count), want_cache(count);
            dequantize_row(dtype, bytes.data(), got_cache.data(), static_cast<int64_t>(count));
            dequantize_row(dtype, host_cache->data(), want_cache.data(), static_cast<int64_t>(count));
            // one unit in the last place of the cache's dtype where the float before rounding differs
            const float floor = dtype == DType::kF8E4M3 ? 0x1p-9f : 1e-5f;
            const float step_size = dtype == DType::kF8E4M3 ? 0x1p-3f : dtype == DType::kBF16 ? 0x1p-7f : 0x1p-10f;
            for (size_t i = 0; i < count; ++i)
              CHECK(std::abs(got_cache[i] - want_cache[i]) <= std::abs(want_cache[i]) * step_size + floor);
          }
          device.buffers.clear();
        }
}

TEST_CASE("cuda rows: gather", "[cuda][rows]") {
  Device device;
  std::mt19937 rng(9);
  const auto x = random_floats(rng, 700 * 40);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 600; ++i) ids.push_back(699 - i);
  float* out = device.put(std::vector<float>(600 * 40));
  device.ops->gather_rows(device.put(x), ids, 40, out);
  const auto got = device.get(out, 600 * 40);
  for (size_t i = 0; i < 600; ++i) CHECK(same_bits(got.data() + i * 40, x.data() + static_cast<size_t>(ids[i]) * 40, 40));
}
