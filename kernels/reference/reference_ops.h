// The oracle: scalar loops over weights read again from the mapped file, FP32 accumulation, F32 activations, libm
// functions. Independent of the CPU backend's packing, quantised activations and polynomials on purpose.
// Every sum runs in a fixed order over K or over positions, so this backend keeps the kernel law too.
#pragma once

#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace slipstream {

class ReferenceOps final : public Ops {
 public:
  explicit ReferenceOps(int32_t threads = 1) : threads_(threads) {}
  std::string name() const override { return "reference"; }
  std::vector<KernelChoice> kernel_report() const override;
  std::vector<MachineFact> machine_report() const override;

  Buffer allocate(size_t bytes) override;
  void upload(void* device, const void* host, size_t bytes) override;
  void download(void* host, const void* device, size_t bytes) override;
  std::string unsupported_reason(const WeightSpec& spec) const override;
  std::unique_ptr<Weight> prepare_weight(WeightSpec spec) override;
  uint8_t activation_forms(const Weight& weight) const override;
  Activation make_activation(int32_t max_rows, int64_t cols, uint8_t forms) override;

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
  void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                       int64_t cols, const float* norm, float eps, Activation* out) override;

  void warm_up(int32_t max_rows) override;
  int64_t allocations_after_warm_up() const override { return late_allocations_; }

 private:
  /// partials[s][r][n] over local shard s; shards = 1 gives the whole product.
  void shard_products(const Weight& w, const Activation& x, int32_t shards, float* partials);

  std::vector<Buffer> owned_;
  const int32_t threads_;
  std::vector<float> scores_;      // of one query; grows with the context
  int64_t max_partials_ = 0;
  bool warm_ = false;
  int64_t late_allocations_ = 0;
};

}  // namespace slipstream
