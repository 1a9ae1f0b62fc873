// CheckedOps: bounds and comparisons. Each op gets the inner backend's own inputs, so errors do not accumulate and the
// first failure names the op that is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "kernels/check.h"
#include "kernels/formats.h"
#include "kernels/ops_decorators.h"
#include "kernels/sample_kernels.h"

namespace slipstream {
namespace {

// Relative root-mean-square bounds of one row. Float work differs only in the order of sums. An int8 activation of a
// 32-block is off by at most amax / 254, typically amax / 440: 0.7 % of a Gaussian block, 1.3 % where one value
// dominates; 4 % leaves room for rows whose products cancel.
constexpr double kFloatBound = 1e-4;
constexpr double kInt8Bound = 4e-2;

class CheckedWeight final : public Weight {
 public:
  CheckedWeight(WeightSpec spec, std::unique_ptr<Weight> inner, std::unique_ptr<Weight> oracle)
      : Weight(std::move(spec)), inner_(std::move(inner)), oracle_(std::move(oracle)) {}
  int64_t resident_bytes() const override { return inner_->resident_bytes(); }
  std::string description() const override { return inner_->description() + ", checked"; }
  const Weight& inner() const { return *inner_; }
  const Weight& oracle() const { return *oracle_; }

 private:
  std::unique_ptr<Weight> inner_, oracle_;
};

const CheckedWeight& checked(const Weight& w) { return static_cast<const CheckedWeight&>(w); }

std::string named(const char* op, const Weight& w) {
  const WeightPart& part = w.spec().parts.front();
  return std::string(op) + " '" + part.name + "' (" + std::string(dtype_info(part.dtype).name) + ")";
}

double product_bound(const Ops& inner, const CheckedWeight& w) {
  return inner.activation_forms(w.inner()) & kActInt8Block32 ? kInt8Bound : kFloatBound;
}

/// K and V rows that a step writes, as floats: [rows, 2, kv_heads, head_dim].
std::vector<float> written_rows(const QkvParams& p) {
  std::vector<float> out;
  for (const SpanRows& span : p.step->spans)
    for (int32_t r = 0; r < span.rows; ++r)
      for (const void* base : {p.kv.k, p.kv.v})
        for (int32_t h = 0; h < p.kv_heads; ++h) {
          const int64_t token = int64_t{span.context} + r;
          const int64_t block = span.block_tables[p.kv.group][token / p.kv.block_tokens];
          const int64_t first =
              ((block * p.kv_heads + h) * p.kv.block_tokens + token % p.kv.block_tokens) * p.head_dim;
          std::vector<float> row(static_cast<size_t>(p.head_dim));
          const int64_t bytes = dtype_info(p.kv.dtype).block_bytes;
          dequantize_row(p.kv.dtype, static_cast<const std::byte*>(base) + first * bytes, row.data(), p.head_dim);
          out.insert(out.end(), row.begin(), row.end());
        }
  return out;
}

}  // namespace

std::string CheckFailure::text() const {
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, ": row %d, relative error %.3g, bound %.3g", row, error, bound);
  return op + numbers;
}

CheckedOps::CheckedOps(Ops& inner) : ForwardingOps(inner), reference_(make_reference_ops()) {}
CheckedOps::~CheckedOps() = default;

void CheckedOps::compare(const std::string& op, const float* got, const float* want, int32_t rows, int64_t cols,
                         double bound) {
  for (int32_t r = 0; r < rows; ++r) {
    ++comparisons_;
    double error = 0, size = 0;
    for (int64_t c = r * cols; c < (r + 1) * cols; ++c) {
      error += (double{got[c]} - want[c]) * (double{got[c]} - want[c]);
      size += double{want[c]} * want[c];
    }
    const double relative = std::sqrt(error) / (std::sqrt(size) + 1e-30);
    if (!(relative <= bound)) failures_.push_back({op, r, relative, bound});
  }
}

/// The int8 form must be the rounding of the float form.
void CheckedOps::compare_forms(const std::string& op, const Activation& x) {
  if (x.q == nullptr) return;
  for (int32_t r = 0; r < x.rows; ++r) {
    ++comparisons_;
    for (int64_t b = r * x.cols / 32; b < (r + 1) * x.cols / 32; ++b) {
      int32_t sum = 0;
      double worst = 0;
      for (int64_t i = b * 32; i < b * 32 + 32; ++i) {
        sum += x.q[i];
        worst = std::max(worst, std::fabs(static_cast<double>(x.q[i]) * x.scale[b] - x.f32[i]));
      }
      if (sum == x.sum[b] && worst <= 0.5001 * x.scale[b]) continue;
      failures_.push_back({op + ", int8 form", r, worst, 0.5 * x.scale[b]});
      break;
    }
  }
}

Activation CheckedOps::reference_activation(const Activation& like, std::vector<float>* storage) const {
  storage->resize(static_cast<size_t>(like.max_rows * like.cols));
  Activation x;
  x.max_rows = like.max_rows;
  x.cols = like.cols;
  x.f32 = storage->data();
  return x;
}

std::unique_ptr<Weight> CheckedOps::prepare_weight(WeightSpec spec) {
  auto prepared = inner().prepare_weight(spec);
  auto oracle = reference_->prepare_weight(spec);
  return std::make_unique<CheckedWeight>(std::move(spec), std::move(prepared), std::move(oracle));
}

uint8_t CheckedOps::activation_forms(const Weight& w) const { return inner().activation_forms(checked(w).inner()) | kActF32; }

Activation CheckedOps::make_activation(int32_t max_rows, int64_t cols, uint8_t forms) {
  return inner().make_activation(max_rows, cols, forms | kActF32);
}

void CheckedOps::embed(const Weight& table, const StepInputs& step, float scale, float* out) {
  inner().embed(checked(table).inner(), step, scale, out);
  std::vector<float> want(static_cast<size_t>(step.rows * table.cols()));
  reference_->embed(checked(table).oracle(), step, scale, want.data());
  compare(named("embed", table), out, want.data(), step.rows, table.cols(), 1e-6);
}

void CheckedOps::rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) {
  std::vector<float> storage;
  Activation want = reference_activation(*out, &storage);
  reference_->rms_norm(x, rows, weight, eps, &want);
  inner().rms_norm(x, rows, weight, eps, out);
  compare("rms_norm", out->f32, want.f32, rows, out->cols, kFloatBound);
  compare_forms("rms_norm", *out);
}

void CheckedOps::linear(const Weight& w, const Activation& x, const float* bias, float* out) {
  std::vector<float> want(static_cast<size_t>(x.rows * w.rows()));
  reference_->linear(checked(w).oracle(), x, bias, want.data());
  inner().linear(checked(w).inner(), x, bias, out);
  compare(named("linear", w), out, want.data(), x.rows, w.rows(), product_bound(inner(), checked(w)));
}

void CheckedOps::row_linear_partials(const Weight& w, const Activation& x, float* partials) {
  const int32_t rows = w.spec().local_shards * x.rows;
  std::vector<float> want(static_cast<size_t>(rows * w.rows()));
  reference_->row_linear_partials(checked(w).oracle(), x, want.data());
  inner().row_linear_partials(checked(w).inner(), x, partials);
  compare(named("row_linear_partials", w), partials, want.data(), rows, w.rows(), product_bound(inner(), checked(w)));
}

void CheckedOps::qkv_norm_rope_cache(const QkvParams& params) {
  const int64_t stride = (int64_t{params.heads} + 2 * params.kv_heads) * params.head_dim;
  const int32_t rows = params.step->rows;
  std::vector<float> copy(params.qkv, params.qkv + rows * stride);
  QkvParams oracle = params;
  oracle.qkv = copy.data();
  reference_->qkv_norm_rope_cache(oracle);
  const std::vector<float> want_cache = written_rows(params);
  inner().qkv_norm_rope_cache(params);
  const int64_t q_width = int64_t{params.heads} * params.head_dim;
  std::vector<float> got_q, want_q;
  for (int32_t r = 0; r < rows; ++r) {
    got_q.insert(got_q.end(), params.qkv + r * stride, params.qkv + r * stride + q_width);
    want_q.insert(want_q.end(), copy.begin() + r * stride, copy.begin() + r * stride + q_width);
  }
  compare("qkv_norm_rope_cache, q", got_q.data(), want_q.data(), rows, q_width, kFloatBound);
  // a last-bit difference may round to the other 16-bit neighbour: at most 2^-8 of a few values
  const double bound = params.kv.dtype == DType::kF32 ? kFloatBound : 4e-3;
  compare("qkv_norm_rope_cache, cache", written_rows(params).data(), want_cache.data(), rows,
          2 * int64_t{params.kv_heads} * params.head_dim, bound);
}

void CheckedOps::attention(const AttentionParams& params) {
  std::vector<float> storage;
  Activation want = reference_activation(*params.out, &storage);
  AttentionParams oracle = params;
  oracle.out = &want;
  reference_->attention(oracle);
  inner().attention(params);
  compare("attention", params.out->f32, want.f32, params.step->rows, want.cols, kFloatBound);
  compare_forms("attention", *params.out);
}

void CheckedOps::swiglu(const float* gate_up, int32_t rows, Activation* out) {
  std::vector<float> storage;
  Activation want = reference_activation(*out, &storage);
  reference_->swiglu(gate_up, rows, &want);
  inner().swiglu(gate_up, rows, out);
  compare("swiglu", out->f32, want.f32, rows, out->cols, kFloatBound);
  compare_forms("swiglu", *out);
}

void CheckedOps::sample(const SampleBatch& batch) {
  std::vector<SampledToken> want(static_cast<size_t>(batch.rows));
  SampleBatch oracle = batch;
  oracle.out = want.data();
  reference_->sample(oracle);
  inner().sample(batch);
  for (int32_t r = 0; r < batch.rows; ++r) {
    ++comparisons_;
    const SampledToken& a = batch.out[r];
    const SampledToken& b = want[static_cast<size_t>(r)];
    if (a.token != b.token || a.non_finite != b.non_finite)
      failures_.push_back({"sample", r, std::fabs(double(a.token) - b.token), 0});
  }
}

void CheckedOps::row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                                     const float* norm, float eps, Activation* out) {
  // The increment is compared, not the residual, which would hide it. Ranks of a group reach the collective together:
  // the oracle sees only this rank's shards, so partials are checked instead.
  const WeightSpec& spec = w.spec();
  if (spec.local_shards != spec.virtual_shards)
    return Ops::row_linear_add_norm(w, x, bias, residual, norm, eps, out);
  const size_t count = static_cast<size_t>(x.rows * w.rows());
  std::vector<float> before(residual, residual + count), want(count, 0.0f), got(count);
  reference_->row_linear_add_norm(checked(w).oracle(), x, bias, want.data(), nullptr, eps, nullptr);
  inner().row_linear_add_norm(checked(w).inner(), x, bias, residual, norm, eps, out);
  for (size_t i = 0; i < count; ++i) got[i] = residual[i] - before[i];
  // adding to a large residual rounds the increment away: 2^-24 of the residual per value
  double largest = 0, size = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(double{residual[i]})), size += double{want[i]} * want[i];
  const double lost = 6e-8 * largest / (std::sqrt(size / static_cast<double>(count)) + 1e-30);
  compare(named("row_linear_add_norm", w), got.data(), want.data(), x.rows, w.rows(),
          product_bound(inner(), checked(w)) + lost);
  if (norm == nullptr) return;
  std::vector<float> storage;
  Activation want_norm = reference_activation(*out, &storage);
  reference_->rms_norm(residual, x.rows, norm, eps, &want_norm);
  compare("row_linear_add_norm, norm", out->f32, want_norm.f32, x.rows, out->cols, kFloatBound);
  compare_forms("row_linear_add_norm", *out);
}

void CheckedOps::reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias,
                                 float* residual, int64_t cols, const float* norm, float eps, Activation* out) {
  std::vector<float> want(residual, residual + rows * cols), storage;
  Activation want_norm;
  if (norm != nullptr) want_norm = reference_activation(*out, &storage);
  reference_->reduce_add_norm(partials, shards, rows, bias, want.data(), cols, norm, eps, &want_norm);
  inner().reduce_add_norm(partials, shards, rows, bias, residual, cols, norm, eps, out);
  compare("reduce_add_norm", residual, want.data(), rows, cols, kFloatBound);
  if (norm == nullptr) return;
  compare("reduce_add_norm, norm", out->f32, want_norm.f32, rows, cols, kFloatBound);
  compare_forms("reduce_add_norm", *out);
}

}  // namespace slipstream
