// Ops around Ops: FaultyOps breaks chosen calls, CountingOps counts; CheckedOps (checked_ops.h) compares with the reference.
// All borrow the inner Ops and serve its weights, memory and threads; they know nothing of its kernels.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace slipstream {

/// Passes every call to `inner`. before() and after() bracket each op of a step.
class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(Ops& inner) : inner_(inner) {}

  std::string name() const override { return inner_.name(); }
  std::vector<KernelChoice> kernel_report() const override { return inner_.kernel_report(); }
  std::vector<MachineFact> machine_report() const override { return inner_.machine_report(); }
  void set_comm(Communicator* comm) override;
  Buffer allocate(size_t bytes) override { return inner_.allocate(bytes); }
  void upload(void* device, const void* host, size_t bytes) override { inner_.upload(device, host, bytes); }
  void download(void* host, const void* device, size_t bytes) override { inner_.download(host, device, bytes); }
  std::string unsupported_reason(const WeightSpec& spec) const override { return inner_.unsupported_reason(spec); }
  std::unique_ptr<Weight> prepare_weight(WeightSpec spec) override { return inner_.prepare_weight(std::move(spec)); }
  uint8_t activation_forms(const Weight& weight) const override { return inner_.activation_forms(weight); }
  Activation make_activation(int32_t max_rows, int64_t cols, uint8_t forms) override {
    return inner_.make_activation(max_rows, cols, forms);
  }

  void plan_attention(int32_t max_rows, int32_t heads, int32_t kv_heads, int32_t head_dim) override {
    inner_.plan_attention(max_rows, heads, kv_heads, head_dim);
  }
  void plan_cache(const KvLayer& kv) override { inner_.plan_cache(kv); }
  MemoryFacts memory() const override { return inner_.memory(); }
  int64_t allocated_bytes() const override { return inner_.allocated_bytes(); }
  int64_t peak_bytes() const override { return inner_.peak_bytes(); }
  void begin_step(StepInputs* step) override { inner_.begin_step(step); }
  bool narrow_step(const StepInputs& step, StepInputs* narrow) override { return inner_.narrow_step(step, narrow); }
  void embed(const Weight& table, const StepInputs& step, float scale, float* out) override;
  void rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) override;
  void store_rows(const float* x, int32_t rows, Activation* out) override;
  void linear(const Weight& w, const Activation& x, const float* bias, float* out) override;
  void row_linear_partials(const Weight& w, const Activation& x, float* partials) override;
  void qkv_norm_rope_cache(const QkvParams& params) override;
  void attention(const AttentionParams& params) override;
  void swiglu(const float* gate_up, int32_t rows, Activation* out) override;
  void gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) override;
  void sample(const SampleBatch& batch) override;
  void copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) override;
  void row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                           const float* norm, float eps, Activation* out) override;
  void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                       int64_t cols, const float* norm, float eps, Activation* out) override;

  void warm_up(int32_t max_rows) override { inner_.warm_up(max_rows); }
  int64_t allocations_after_warm_up() const override { return inner_.allocations_after_warm_up(); }

 protected:
  Ops& inner() const { return inner_; }
  /// op: its name; called around every op of a step.
  virtual void before(const char* op) { (void)op; }
  /// out: the op's first output value, or null.
  virtual void after(const char* op, float* out) { (void)op, (void)out; }

 private:
  Ops& inner_;
};

/// Counts ops by name.
class CountingOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  int64_t total() const;
  void reset() { counts_.clear(); }
  /// CHECKs that the inner Ops has not allocated since warm_up.
  void check_no_allocations() const;

 private:
  void before(const char* op) override { ++counts_[op]; }
  std::map<std::string, int64_t> counts_;
};

enum class FaultKind : uint8_t { kDeviceError, kNan };

/// Breaks chosen calls, counted over all ops of a step from 0: throws DeviceError before the call, or puts a NaN in its
/// first output value after it.
class FaultyOps final : public ForwardingOps {
 public:
  FaultyOps(Ops& inner, std::map<int64_t, FaultKind> faults) : ForwardingOps(inner), faults_(std::move(faults)) {}
  int64_t calls() const { return calls_; }

 private:
  void before(const char* op) override;
  void after(const char* op, float* out) override;
  std::map<int64_t, FaultKind> faults_;
  int64_t calls_ = 0;
};

}  // namespace slipstream
