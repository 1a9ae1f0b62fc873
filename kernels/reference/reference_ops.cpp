// Memory, weights and row-wise ops of the oracle. Attention is in reference_attention.cpp.
#include "kernels/reference/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <thread>

#include "kernels/check.h"
#include "kernels/formats.h"
#include "kernels/processor_name.h"
#include "kernels/sample_kernels.h"

namespace slipstream {
namespace {

class StoredWeight final : public Weight {
 public:
  using Weight::Weight;
  int64_t resident_bytes() const override { return 0; }
  std::string description() const override {
    return std::string(dtype_info(spec().parts.front().dtype).name) + ", dequantised at each use, reference";
  }
};

void begin(Activation* out, int32_t rows) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
}

void norm_row(const float* x, int64_t cols, const float* weight, float eps, float* out) {
  float sum = 0;
  for (int64_t c = 0; c < cols; ++c) sum += x[c] * x[c];
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(cols) + eps);
  for (int64_t c = 0; c < cols; ++c) out[c] = x[c] * inverse * weight[c];
}

float dot(const float* a, const float* b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::vector<KernelChoice> ReferenceOps::kernel_report() const {
  return {{"all", "reference scalar loops", "the oracle is never the fastest"}};
}

std::vector<MachineFact> ReferenceOps::machine_report() const {
  return {{"processor", processor_name()}, {"threads", std::to_string(threads_)}};
}

Buffer ReferenceOps::allocate(size_t bytes) {
  if (warm_) ++late_allocations_;
  if (bytes == 0) return {};
  void* data = std::calloc(1, bytes);
  if (data == nullptr) throw DeviceError("cannot allocate " + std::to_string(bytes) + " bytes of memory");
  return Buffer(data, bytes, [](void* p, size_t) { std::free(p); });
}

void ReferenceOps::upload(void* device, const void* host, size_t bytes) { std::memcpy(device, host, bytes); }
void ReferenceOps::download(void* host, const void* device, size_t bytes) { std::memcpy(host, device, bytes); }

std::string ReferenceOps::unsupported_reason(const WeightSpec& spec) const {
  if (std::string reason = f8_unsupported_reason(spec); !reason.empty()) return reason;
  for (const WeightPart& part : spec.parts) {
    const int32_t block = dtype_info(part.dtype).block_elements;
    const std::string what = "tensor '" + part.name + "' (" + std::string(dtype_info(part.dtype).name) + ")";
    if (part.dtype == DType::kI32) return what + ": integers cannot be multiplied";
    if (part.cols % block != 0)
      return what + ": " + std::to_string(part.cols) + " columns are not whole blocks of " + std::to_string(block);
    if (spec.role == WeightRole::kRowLinear && (spec.local_shards < 1 || part.cols % spec.local_shards != 0))
      return what + ": " + std::to_string(part.cols) + " columns cannot be cut in " +
             std::to_string(spec.local_shards) + " equal shards";
  }
  return {};
}

std::unique_ptr<Weight> ReferenceOps::prepare_weight(WeightSpec spec) {
  const std::string reason = unsupported_reason(spec);
  CHECK(reason.empty(), reason);
  auto weight = std::make_unique<StoredWeight>(std::move(spec));
  if (weight->spec().role == WeightRole::kRowLinear)
    max_partials_ = std::max(max_partials_, weight->spec().virtual_shards * weight->rows());
  return weight;
}

uint8_t ReferenceOps::activation_forms(const Weight&) const { return kActF32; }

Activation ReferenceOps::make_activation(int32_t max_rows, int64_t cols, uint8_t) {
  Activation x;
  x.max_rows = max_rows;
  x.cols = cols;
  x.forms = kActF32;
  owned_.push_back(allocate(static_cast<size_t>(max_rows) * static_cast<size_t>(cols) * sizeof(float)));
  x.f32 = owned_.back().as<float>();
  return x;
}

void ReferenceOps::embed(const Weight& table, const StepInputs& step, float scale, float* out) {
  for (int32_t r = 0; r < step.rows; ++r) {
    int64_t row = step.token_ids[r];
    CHECK(row >= 0 && row < table.rows(), "token id outside of the vocabulary");
    size_t p = 0;
    for (; row >= table.spec().parts[p].rows; ++p) row -= table.spec().parts[p].rows;
    const WeightPart& part = table.spec().parts[p];
    float* y = out + r * table.cols();
    dequantize_part_row(part, row, y);
    for (int64_t c = 0; c < table.cols(); ++c) y[c] *= scale;
  }
}

void ReferenceOps::rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) {
  begin(out, rows);
  for (int32_t r = 0; r < rows; ++r) norm_row(x + r * out->cols, out->cols, weight, eps, out->f32 + r * out->cols);
}

void ReferenceOps::store_rows(const float* x, int32_t rows, Activation* out) {
  begin(out, rows);
  std::memcpy(out->f32, x, static_cast<size_t>(rows) * static_cast<size_t>(out->cols) * sizeof(float));
}

void ReferenceOps::shard_products(const Weight& w, const Activation& x, int32_t shards, float* partials) {
  CHECK(x.cols == w.cols() && x.f32 != nullptr, "the activation does not fit the weight");
  const int64_t width = w.cols() / shards;
  const int64_t per_shard = x.rows * w.rows();
  const auto products_of = [&](int64_t first, int64_t last) {
    std::vector<float> weight_row(static_cast<size_t>(w.cols()));
    int64_t n = 0;
    for (const WeightPart& part : w.spec().parts)
      for (int64_t row = 0; row < part.rows; ++row, ++n) {
        if (n < first || n >= last) continue;
        dequantize_part_row(part, row, weight_row.data());
        for (int32_t s = 0; s < shards; ++s)
          for (int32_t r = 0; r < x.rows; ++r)
            partials[s * per_shard + r * w.rows() + n] =
                dot(weight_row.data() + s * width, x.f32 + r * x.cols + s * width, width);
      }
  };
  constexpr int64_t kWorthThreads = 1 << 20;  // multiplications
  const int64_t threads = int64_t{x.rows} * w.rows() * w.cols() < kWorthThreads ? 1 : threads_;
  std::vector<std::thread> others;
  for (int64_t t = 1; t < threads; ++t)
    others.emplace_back(products_of, w.rows() * t / threads, w.rows() * (t + 1) / threads);
  products_of(0, w.rows() / threads);
  for (std::thread& other : others) other.join();
}

void ReferenceOps::linear(const Weight& w, const Activation& x, const float* bias, float* out) {
  shard_products(w, x, 1, out);
  if (bias == nullptr) return;
  for (int32_t r = 0; r < x.rows; ++r)
    for (int64_t n = 0; n < w.rows(); ++n) out[r * w.rows() + n] += bias[n];
}

void ReferenceOps::row_linear_partials(const Weight& w, const Activation& x, float* partials) {
  CHECK(w.spec().role == WeightRole::kRowLinear, "partials need a row-parallel weight");
  shard_products(w, x, w.spec().local_shards, partials);
}

void ReferenceOps::reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias,
                                   float* residual, int64_t cols, const float* norm, float eps, Activation* out) {
  for (int64_t i = 0; i < rows * cols; ++i) {
    float sum = partials[i];
    for (int32_t s = 1; s < shards; ++s) sum += partials[s * rows * cols + i];
    if (bias != nullptr) sum += bias[i % cols];
    residual[i] += sum;
  }
  if (norm != nullptr) rms_norm(residual, rows, norm, eps, out);
}

void ReferenceOps::swiglu(const float* gate_up, int32_t rows, Activation* out) {
  begin(out, rows);
  const int64_t cols = out->cols;
  for (int32_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const float gate = gate_up[r * 2 * cols + c];
      const float up = gate_up[r * 2 * cols + cols + c];
      out->f32[r * cols + c] = gate / (1.0f + std::exp(-gate)) * up;
    }
}

void ReferenceOps::gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) {
  for (size_t i = 0; i < row_ids.size(); ++i)
    std::memmove(out + static_cast<int64_t>(i) * cols, x + row_ids[i] * cols, static_cast<size_t>(cols) * sizeof(float));
}

void ReferenceOps::sample(const SampleBatch& batch) { reference_sample(batch); }

void ReferenceOps::copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) {
  const int64_t bytes = int64_t{kv.kv_heads} * kv.block_tokens * kv.head_dim * dtype_info(kv.dtype).block_bytes;
  for (void* base : {kv.k, kv.v}) {
    auto* data = static_cast<std::byte*>(base);
    std::memcpy(data + target * bytes, data + source * bytes, static_cast<size_t>(bytes));
  }
}

void ReferenceOps::warm_up(int32_t max_rows) {
  if (max_partials_ > 0) partials_scratch(static_cast<size_t>(max_partials_ * max_rows));
  warm_ = true;
}

std::unique_ptr<Ops> make_reference_ops(int32_t threads) { return std::make_unique<ReferenceOps>(threads); }

}  // namespace slipstream
