#include "kernels/ops_decorators.h"

#include <limits>

#include "kernels/check.h"

namespace slipstream {
namespace {

/// Some value whose NaN is seen downstream.
float* first_value(Activation* x) {
  if (x == nullptr) return nullptr;
  return x->scale != nullptr ? x->scale : x->f32;
}

}  // namespace

void ForwardingOps::set_comm(Communicator* comm) {
  Ops::set_comm(comm);
  inner_.set_comm(comm);
}

void ForwardingOps::embed(const Weight& table, const StepInputs& step, float scale, float* out) {
  before("embed");
  inner_.embed(table, step, scale, out);
  after("embed", out);
}

void ForwardingOps::rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) {
  before("rms_norm");
  inner_.rms_norm(x, rows, weight, eps, out);
  after("rms_norm", first_value(out));
}

void ForwardingOps::store_rows(const float* x, int32_t rows, Activation* out) {
  before("store_rows");
  inner_.store_rows(x, rows, out);
  after("store_rows", first_value(out));
}

void ForwardingOps::linear(const Weight& w, const Activation& x, const float* bias, float* out) {
  before("linear");
  inner_.linear(w, x, bias, out);
  after("linear", out);
}

void ForwardingOps::row_linear_partials(const Weight& w, const Activation& x, float* partials) {
  before("row_linear_partials");
  inner_.row_linear_partials(w, x, partials);
  after("row_linear_partials", partials);
}

void ForwardingOps::qkv_norm_rope_cache(const QkvParams& params) {
  before("qkv_norm_rope_cache");
  inner_.qkv_norm_rope_cache(params);
  after("qkv_norm_rope_cache", params.qkv);
}

void ForwardingOps::attention(const AttentionParams& params) {
  before("attention");
  inner_.attention(params);
  after("attention", first_value(params.out));
}

void ForwardingOps::swiglu(const float* gate_up, int32_t rows, Activation* out) {
  before("swiglu");
  inner_.swiglu(gate_up, rows, out);
  after("swiglu", first_value(out));
}

void ForwardingOps::gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) {
  before("gather_rows");
  inner_.gather_rows(x, row_ids, cols, out);
  after("gather_rows", row_ids.empty() ? nullptr : out);
}

void ForwardingOps::sample(const SampleBatch& batch) {
  before("sample");
  inner_.sample(batch);
  after("sample", nullptr);
}

void ForwardingOps::copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) {
  before("copy_kv_block");
  inner_.copy_kv_block(kv, source, target);
  after("copy_kv_block", nullptr);
}

void ForwardingOps::row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                                        const float* norm, float eps, Activation* out) {
  before("row_linear_add_norm");
  inner_.row_linear_add_norm(w, x, bias, residual, norm, eps, out);
  after("row_linear_add_norm", residual);
}

void ForwardingOps::reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias,
                                    float* residual, int64_t cols, const float* norm, float eps, Activation* out) {
  before("reduce_add_norm");
  inner_.reduce_add_norm(partials, shards, rows, bias, residual, cols, norm, eps, out);
  after("reduce_add_norm", residual);
}

int64_t CountingOps::total() const {
  int64_t sum = 0;
  for (const auto& [op, count] : counts_) sum += count;
  return sum;
}

void CountingOps::check_no_allocations() const {
  CHECK(allocations_after_warm_up() == 0, "a step allocated device memory after warm_up");
}

void FaultyOps::before(const char* op) {
  const auto fault = faults_.find(calls_++);
  if (fault != faults_.end() && fault->second == FaultKind::kDeviceError)
    throw DeviceError("injected fault in call " + std::to_string(fault->first) + " (" + op + ")");
}

void FaultyOps::after(const char*, float* out) {
  const auto fault = faults_.find(calls_ - 1);
  if (fault != faults_.end() && fault->second == FaultKind::kNan && out != nullptr)
    *out = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace slipstream
