// The CUDA backend: which kernel serves which op on one GPU. Owns the rank's context, scratch and step uploads; the
// kernels are in the files beside it. Worker thread of its rank only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/step_narrow.h"
#include "kernels/cuda/step_upload.h"
#include "kernels/cuda/weight_stream.h"
#include "kernels/ops.h"

namespace slipstream::cuda {

class CudaOps final : public Ops {
 public:
  explicit CudaOps(const CudaOptions& options);
  /// The dry twin of `real`, which outlives it.
  CudaOps(const CudaOps& real, Context::DryRun dry);
  ~CudaOps() override;

  std::string name() const override { return "cuda"; }
  std::vector<KernelChoice> kernel_report() const override;
  std::vector<MachineFact> machine_report() const override;
  Context& context() { return context_; }

  Buffer allocate(size_t bytes) override;
  void upload(void* device, const void* host, size_t bytes) override;
  void download(void* host, const void* device, size_t bytes) override;
  std::string unsupported_reason(const WeightSpec& spec) const override;
  std::unique_ptr<Weight> prepare_weight(WeightSpec spec) override;
  bool makes_dummy_weights() const override { return true; }
  uint8_t activation_forms(const Weight& weight) const override;
  Activation make_activation(int32_t max_rows, int64_t cols, uint8_t forms) override;

  void plan_attention(int32_t max_rows, int32_t heads, int32_t kv_heads, int32_t head_dim) override;
  void plan_cache(const KvLayer& kv) override { attention_shape_.kv = kv; }
  MemoryFacts memory() const override;
  int64_t allocated_bytes() const override { return static_cast<int64_t>(context_.allocated_bytes()); }
  int64_t peak_bytes() const override { return static_cast<int64_t>(context_.peak_bytes()); }
  std::unique_ptr<Ops> dry_twin() const override { return std::make_unique<CudaOps>(*this, Context::DryRun{}); }
  void begin_step(StepInputs* step) override;
  bool narrow_step(const StepInputs& step, StepInputs* narrow) override;
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
  void linear_qkv(const Weight& w, const Activation& x, const float* bias, const QkvParams& params) override;
  void linear_swiglu(const Weight& w, const Activation& x, const float* bias, float* scratch, Activation* out) override;
  void row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual, const float* norm,
                           float eps, Activation* out) override;
  void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                       int64_t cols, const float* norm, float eps, Activation* out) override;

  void warm_up(int32_t max_rows) override;
  int64_t allocations_after_warm_up() const override;

 private:
  /// Whether a product of these rows leaves BF16 rows: many of them, from cuBLASLt.
  bool leaves_bf16(const CudaWeight& w, const Activation& x) const;
  /// The factor that x lacks, which the product of w takes; where it does not, x is finished first.
  PendingNorm take_pending(const CudaWeight& w, const Activation& x);
  /// out without the forms that products of so many rows never read.
  Activation read_forms(const Activation& out, int32_t rows) const;
  /// Grows only before warm_up, where the largest size is known.
  static void ensure(Context& context, Buffer* buffer, size_t bytes);

  Context context_;
  const bool resident_steps_;
  StepUpload uploads_;
  StepNarrow narrow_;
  WeightStream stream_;
  LinearScratch linear_scratch_;
  SampleUpload samples_;
  Buffer attention_scratch_;
  AttentionArgs attention_shape_;  // the last one planned, for the report
  Buffer row_output_;         // [max_rows, widest row-parallel output]: what add_norm adds to the residual
  std::vector<Buffer> owned_; // activations
  Buffer squares_;            // [kFusedSquares]
  PendingNorm pending_;       // of the activation whose BF16 form is pending_of_
  const uint16_t* pending_of_ = nullptr;
  int64_t widest_row_output_ = 0;
  int64_t warm_allocations_ = -1;
};

}  // namespace slipstream::cuda
